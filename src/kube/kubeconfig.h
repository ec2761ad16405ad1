// kubeconfig files, for developers and tests; a pod uses InClusterConfig. JSON only (JSON is YAML, so every tool reads it too):
// `kubectl config view --raw --minify --flatten -o json`.
#pragma once

#include <filesystem>
#include <string_view>

#include "src/base/result.h"
#include "src/kube/config.h"

namespace cd::kube {

// The current context. Exec and auth-provider plugins are refused. Relative paths are relative to the file.
Result<ClientConfig> LoadKubeconfig(const std::filesystem::path& path);
// The same from the file's text; reads but the files it names, relative to `folder`.
Result<ClientConfig> ParseKubeconfig(std::string_view text, const std::filesystem::path& folder);

}  // namespace cd::kube
