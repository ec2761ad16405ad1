{{- define "cd.image" -}}
{{- $image := .Values.image -}}
{{- if $image.digest -}}
{{ $image.repository }}@{{ $image.digest }}
{{- else -}}
{{ $image.repository }}:{{ $image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end -}}

{{- /* Changes with whatever a running daemon would have to be replaced for. */ -}}
{{- define "cd.daemonRevision" -}}
{{ printf "%s %s" (include "cd.daemonPodSpec" . | fromYaml | toJson) (include "cd.withoutNull" .Values.podAnnotations) | sha256sum | trunc 10 }}
{{- end -}}

{{- define "cd.selector" -}}
app.kubernetes.io/name: computedomain-driver
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end -}}

{{- define "cd.labels" -}}
app.kubernetes.io/name: computedomain-driver
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end -}}

{{- /* The user name of a service account of this release, as the API server sees it. */ -}}
{{- define "cd.username" -}}
system:serviceaccount:{{ .root.Release.Namespace }}:{{ .account }}
{{- end -}}

{{- /* Memory: libcurl brings GnuTLS, which nobody uses here but which sets itself up when it is loaded; and threads share one heap. */ -}}
{{- define "cd.memoryEnv" -}}
- {name: GNUTLS_NO_IMPLICIT_INIT, value: "1"}
- {name: MALLOC_ARENA_MAX, value: "1"}
{{- end -}}

{{- define "cd.pullSecrets" -}}
{{- with .Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- /*
A null takes a key away. Helm does that itself with the chart's defaults, but `helm upgrade --reuse-values` leaves the null where it was.
*/ -}}
{{- define "cd.withoutNull" -}}
{{- $kept := dict -}}
{{- range $key, $value := . }}{{ if not (kindIs "invalid" $value) }}{{ $_ := set $kept $key $value }}{{ end }}{{ end -}}
{{- with $kept }}{{ toYaml . }}{{ end -}}
{{- end -}}

{{- /*
Kernel files below /proc are read in the plugin's own /proc, which shows the same kernel. Others are mounted by directory, not by file: a
file that is replaced by rename would be seen in its old form for ever.
*/ -}}
{{- define "cd.procDevices" -}}
{{- if hasPrefix "/proc/" .Values.procDevicesFile }}{{ .Values.procDevicesFile }}{{ else }}/host/proc-devices/{{ base .Values.procDevicesFile }}{{ end -}}
{{- end -}}
{{- define "cd.bootID" -}}
{{- if hasPrefix "/proc/" .Values.bootIDFile }}{{ .Values.bootIDFile }}{{ else }}/host/boot-id/{{ base .Values.bootIDFile }}{{ end -}}
{{- end -}}
{{- /*
Container runtimes hide /proc/driver/nvidia of the container, so the host's /proc/driver is mounted, which exists with and without the driver.
*/ -}}
{{- define "cd.capabilities" -}}
{{- if hasPrefix "/proc/driver/" .Values.capabilitiesDir }}/host/proc-driver/{{ trimPrefix "/proc/driver/" .Values.capabilitiesDir }}{{ else }}/host/capabilities{{ end -}}
{{- end -}}

{{- /* Beside the capabilities where both are the driver's own. */ -}}
{{- define "cd.driverParametersBeside" -}}
{{- if and (hasPrefix "/proc/driver/" .Values.driverParametersFile) (hasPrefix "/proc/driver/" .Values.capabilitiesDir) }}yes{{ end -}}
{{- end -}}
{{- define "cd.driverParameters" -}}
{{- if include "cd.driverParametersBeside" . }}/host/proc-driver/{{ trimPrefix "/proc/driver/" .Values.driverParametersFile }}
{{- else if hasPrefix "/proc/driver/" .Values.driverParametersFile }}/host/driver-parameters/{{ trimPrefix "/proc/driver/" .Values.driverParametersFile }}
{{- else }}/host/driver-parameters/{{ base .Values.driverParametersFile }}{{ end -}}
{{- end -}}

{{- /* Puts a ValidatingAdmissionPolicy into force. */ -}}
{{- define "cd.binding" -}}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata:
  name: {{ .name }}
  labels:
    {{- include "cd.labels" .root | nindent 4 }}
spec:
  policyName: {{ .name }}
  validationActions: [Deny]
{{- end -}}
