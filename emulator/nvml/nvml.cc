// libnvidia-ml.so.1 of an emulated node: every answer is read from node.json at the time of the question.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <string>

#include "emulator/node/node_state.h"
#include "emulator/nvml/nvml_abi.h"
#include "emulator/nvml/recovery.h"

namespace {

constexpr unsigned int kFieldRecoveryAction = 230;
constexpr int kValueTypeUnsignedInt = 1;

std::atomic<int> init_count{0};

emu::Result<emu::NodeState> ReadNode() {
  return emu::ReadNodeState(emu::NodeDirectory());
}

// A handle is the GPU's index plus one: it must not be null, and stays meaningful when node.json is rewritten.
nvmlDevice_t HandleOf(size_t index) {
  return reinterpret_cast<nvmlDevice_t>(index + 1);
}

// Reads the node and hands the GPU behind `device` to `use`.
template <class Use>
nvmlReturn_t WithGpu(nvmlDevice_t device, Use use) {
  if (init_count == 0) return NVML_ERROR_UNINITIALIZED;
  const auto node = ReadNode();
  if (!node) return NVML_ERROR_UNKNOWN;
  const size_t index = reinterpret_cast<size_t>(device) - 1;
  if (index >= node->gpus.size()) return NVML_ERROR_INVALID_ARGUMENT;
  return use(node->gpus[index]);
}

nvmlReturn_t CopyText(const std::string& text, char* out, unsigned int size) {
  if (out == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  if (text.size() >= size) return NVML_ERROR_INSUFFICIENT_SIZE;
  std::memcpy(out, text.c_str(), text.size() + 1);
  return NVML_SUCCESS;
}

// The members common to all versions of the fabric structure. Cluster and clique are valid only once registration is
// completed; before that the driver has nothing to report.
template <class Out>
nvmlReturn_t FillFabric(const emu::Gpu& gpu, Out* out) {
  if (!gpu.fabric_query_supported) return NVML_ERROR_NOT_SUPPORTED;
  const bool completed = gpu.state == emu::FabricState::kCompleted;
  std::memset(out->clusterUuid, 0, sizeof out->clusterUuid);
  if (completed) std::copy(gpu.cluster_uuid.begin(), gpu.cluster_uuid.end(), out->clusterUuid);
  out->cliqueId = completed ? gpu.clique_id : 0;
  out->status = completed ? static_cast<nvmlReturn_t>(gpu.status) : NVML_SUCCESS;
  out->state = static_cast<unsigned char>(gpu.state);
  return NVML_SUCCESS;
}

void FillField(const emu::Gpu& gpu, nvmlFieldValue_t* field) {
  if (field->fieldId != kFieldRecoveryAction) {
    field->nvmlReturn = NVML_ERROR_NOT_SUPPORTED;
    return;
  }
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  field->timestamp = std::chrono::duration_cast<std::chrono::microseconds>(now).count();
  field->latencyUsec = 0;
  field->valueType = kValueTypeUnsignedInt;
  field->value.ullVal = 0;
  field->value.uiVal = emu::RecoveryAction(gpu, emu::NodeDirectory());
  field->nvmlReturn = NVML_SUCCESS;
}

}  // namespace

#define NVML_EXPORT extern "C" __attribute__((visibility("default")))

NVML_EXPORT nvmlReturn_t nvmlInitWithFlags(unsigned int) {
  if (!ReadNode()) return NVML_ERROR_DRIVER_NOT_LOADED;
  ++init_count;
  return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlInit_v2() {
  return nvmlInitWithFlags(0);
}
NVML_EXPORT nvmlReturn_t nvmlInit() {
  return nvmlInitWithFlags(0);
}

NVML_EXPORT nvmlReturn_t nvmlShutdown() {
  int count = init_count;
  while (count > 0) {
    if (init_count.compare_exchange_weak(count, count - 1)) return NVML_SUCCESS;
  }
  return NVML_ERROR_UNINITIALIZED;
}

NVML_EXPORT nvmlReturn_t nvmlSystemGetDriverVersion(char* version, unsigned int length) {
  if (init_count == 0) return NVML_ERROR_UNINITIALIZED;
  const auto node = ReadNode();
  return node ? CopyText(node->driver_version, version, length) : NVML_ERROR_UNKNOWN;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetCount_v2(unsigned int* count) {
  if (init_count == 0) return NVML_ERROR_UNINITIALIZED;
  if (count == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  const auto node = ReadNode();
  if (!node) return NVML_ERROR_UNKNOWN;
  *count = static_cast<unsigned int>(node->gpus.size());
  return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetCount(unsigned int* count) {
  return nvmlDeviceGetCount_v2(count);
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t* device) {
  if (device == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  return WithGpu(HandleOf(index), [&](const emu::Gpu&) {
    *device = HandleOf(index);
    return NVML_SUCCESS;
  });
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetHandleByIndex(unsigned int index, nvmlDevice_t* device) {
  return nvmlDeviceGetHandleByIndex_v2(index, device);
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char* uuid, unsigned int length) {
  return WithGpu(device, [&](const emu::Gpu& gpu) { return CopyText(gpu.uuid, uuid, length); });
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetGpuFabricInfo(nvmlDevice_t device, nvmlGpuFabricInfo_t* info) {
  if (info == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  return WithGpu(device, [&](const emu::Gpu& gpu) { return FillFabric(gpu, info); });
}

// `info` points to a v2 or a v3 structure; its first member says which.
NVML_EXPORT nvmlReturn_t nvmlDeviceGetGpuFabricInfoV(nvmlDevice_t device, nvmlGpuFabricInfo_v3_t* info) {
  if (info == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  const bool v2 = info->version == NvmlStructVersion(sizeof(nvmlGpuFabricInfo_v2_t), 2);
  const bool v3 = info->version == NvmlStructVersion(sizeof(nvmlGpuFabricInfo_v3_t), 3);
  if (!v2 && !v3) return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
  return WithGpu(device, [&](const emu::Gpu& gpu) {
    const nvmlReturn_t filled = FillFabric(gpu, info);
    if (filled != NVML_SUCCESS) return filled;
    info->healthMask = gpu.health_mask;
    if (v3) info->healthSummary = gpu.health_summary;
    return NVML_SUCCESS;
  });
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetPlatformInfo(nvmlDevice_t device, nvmlPlatformInfo_v2_t* info) {
  if (info == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  if (info->version != NvmlStructVersion(sizeof *info, 2)) return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
  return WithGpu(device, [&](const emu::Gpu& gpu) {
    const unsigned int version = info->version;
    *info = nvmlPlatformInfo_v2_t{};
    info->version = version;
    const size_t length = std::min(gpu.chassis_serial.size(), sizeof info->chassisSerialNumber);
    std::memcpy(info->chassisSerialNumber, gpu.chassis_serial.data(), length);
    info->slotNumber = gpu.slot_number;
    info->trayIndex = gpu.tray_index;
    info->hostId = gpu.host_id;
    info->moduleId = gpu.module_id;
    return NVML_SUCCESS;
  });
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetFieldValues(nvmlDevice_t device, int count, nvmlFieldValue_t* values) {
  if (values == nullptr || count < 0) return NVML_ERROR_INVALID_ARGUMENT;
  return WithGpu(device, [&](const emu::Gpu& gpu) {
    std::for_each_n(values, count, [&](nvmlFieldValue_t& field) { FillField(gpu, &field); });
    return NVML_SUCCESS;
  });
}

NVML_EXPORT const char* nvmlErrorString(nvmlReturn_t result) {
  switch (static_cast<int>(result)) {
    case NVML_SUCCESS:
      return "Success";
    case NVML_ERROR_UNINITIALIZED:
      return "Uninitialized";
    case NVML_ERROR_INVALID_ARGUMENT:
      return "Invalid Argument";
    case NVML_ERROR_NOT_SUPPORTED:
      return "Not Supported";
    case NVML_ERROR_INSUFFICIENT_SIZE:
      return "Insufficient Size";
    case NVML_ERROR_DRIVER_NOT_LOADED:
      return "Driver Not Loaded";
    case NVML_ERROR_ARGUMENT_VERSION_MISMATCH:
      return "Argument Version Mismatch";
    default:
      return "Unknown Error";
  }
}
