// The few declarations of NVML's binary interface that the probe calls through dlsym; names, numbers and layouts are NVIDIA's.
#pragma once

#include <cstddef>

namespace cd::fabric::nvml {

using Return = int;  // nvmlReturn_t
inline constexpr Return kSuccess = 0;
inline constexpr Return kUninitialized = 1;
inline constexpr Return kNotSupported = 3;
inline constexpr Return kDriverNotLoaded = 9;
inline constexpr Return kFunctionNotFound = 13;
inline constexpr Return kLibraryMismatch = 18;  // the loaded kernel driver is of another version than the library
inline constexpr Return kVersionMismatch = 25;

inline constexpr unsigned int kInitNoGpus = 1;  // do not fail when a GPU cannot be initialised
inline constexpr unsigned int kTextSize = 96;   // covers NVML's UUID and driver version buffers (96, 80)

using Device = struct DeviceHandle*;

struct FabricInfoV1 {
  unsigned char cluster_uuid[16];
  Return status;
  unsigned int clique_id;
  unsigned char state;
};

struct FabricInfoV2 {
  unsigned int version;
  unsigned char cluster_uuid[16];
  Return status;
  unsigned int clique_id;
  unsigned char state;
  unsigned int health_mask;
};

struct FabricInfoV3 {
  unsigned int version;
  unsigned char cluster_uuid[16];
  Return status;
  unsigned int clique_id;
  unsigned char state;
  unsigned int health_mask;
  unsigned char health_summary;
};

static_assert(sizeof(FabricInfoV1) == 28 && sizeof(FabricInfoV2) == 36 && sizeof(FabricInfoV3) == 40);
static_assert(offsetof(FabricInfoV2, health_mask) == 32 && offsetof(FabricInfoV3, health_summary) == 36);

// A versioned structure carries its own size and version in its first member.
constexpr unsigned int StructVersion(std::size_t size, unsigned int version) {
  return static_cast<unsigned int>(size) | version << 24;
}

}  // namespace cd::fabric::nvml
