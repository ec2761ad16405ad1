// The kernel driver's status codes that the model gives, and what a CUDA program makes of them.
#pragma once

#include <array>
#include <string>

namespace emu {

enum class NvStatus {
  kOk,
  kInsufficientPermissions,  // no channel, or not the exporter's channel, or no capability
  kNotSupported,             // no fabric here; or a remote handle without a running nvidia-imex
  kStateInUse,               // the client is subscribed to another channel already
  kInUse,                    // another nvidia-imex holds the node's session
  kInvalidArgument,
  kObjectNotFound,   // no such export
  kInvalidObject,    // exporter and importer are not in one clique: the import exists but cannot be mapped
  kInvalidState,     // fabric allocations blocked, or the client was disabled after losing its imports
  kVersionMismatch,  // nvidia-imex and driver are of different versions
  kTimeout,          // the exporter's node cannot be asked
};

struct NvStatusNames {
  NvStatus status;
  const char* nv;    // as in the open kernel modules
  const char* cuda;  // as cuGetErrorName() would say
  int exit_code;     // of the mnnvl program
};

inline constexpr std::array<NvStatusNames, 11> kNvStatusNames{{
    {NvStatus::kOk, "NV_OK", "CUDA_SUCCESS", 0},
    {NvStatus::kInsufficientPermissions, "NV_ERR_INSUFFICIENT_PERMISSIONS", "CUDA_ERROR_NOT_PERMITTED", 10},
    {NvStatus::kNotSupported, "NV_ERR_NOT_SUPPORTED", "CUDA_ERROR_NOT_SUPPORTED", 11},
    {NvStatus::kStateInUse, "NV_ERR_STATE_IN_USE", "CUDA_ERROR_INVALID_VALUE", 12},
    {NvStatus::kInUse, "NV_ERR_IN_USE", "CUDA_ERROR_UNKNOWN", 13},
    {NvStatus::kInvalidArgument, "NV_ERR_INVALID_ARGUMENT", "CUDA_ERROR_INVALID_VALUE", 14},
    {NvStatus::kObjectNotFound, "NV_ERR_OBJECT_NOT_FOUND", "CUDA_ERROR_INVALID_HANDLE", 15},
    {NvStatus::kInvalidObject, "NV_ERR_INVALID_OBJECT", "CUDA_ERROR_INVALID_HANDLE", 16},
    {NvStatus::kInvalidState, "NV_ERR_INVALID_STATE", "CUDA_ERROR_ILLEGAL_STATE", 17},
    {NvStatus::kVersionMismatch, "NV_ERR_LIB_RM_VERSION_MISMATCH", "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH", 18},
    {NvStatus::kTimeout, "NV_ERR_TIMEOUT", "CUDA_ERROR_UNKNOWN", 19},
}};

inline const NvStatusNames& Names(NvStatus status) {
  return kNvStatusNames[static_cast<size_t>(status)];
}

// The names travel between the programs; an unknown one counts as NV_ERR_INVALID_STATE.
inline NvStatus NvStatusFromName(const std::string& name) {
  for (const NvStatusNames& entry : kNvStatusNames) {
    if (name == entry.nv) return entry.status;
  }
  return NvStatus::kInvalidState;
}

}  // namespace emu
