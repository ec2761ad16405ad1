// The part of NVML's binary interface that this library offers: names, numbers and layouts are NVIDIA's, since callers
// are compiled against them.
#pragma once

#include <cstddef>

extern "C" {

typedef enum {
  NVML_SUCCESS = 0,
  NVML_ERROR_UNINITIALIZED = 1,
  NVML_ERROR_INVALID_ARGUMENT = 2,
  NVML_ERROR_NOT_SUPPORTED = 3,
  NVML_ERROR_INSUFFICIENT_SIZE = 7,
  NVML_ERROR_DRIVER_NOT_LOADED = 9,
  NVML_ERROR_ARGUMENT_VERSION_MISMATCH = 25,
  NVML_ERROR_UNKNOWN = 999,
} nvmlReturn_t;

typedef struct nvmlDevice_st* nvmlDevice_t;

typedef struct {
  unsigned char clusterUuid[16];
  nvmlReturn_t status;
  unsigned int cliqueId;
  unsigned char state;
} nvmlGpuFabricInfo_t;

typedef struct {
  unsigned int version;
  unsigned char clusterUuid[16];
  nvmlReturn_t status;
  unsigned int cliqueId;
  unsigned char state;
  unsigned int healthMask;
} nvmlGpuFabricInfo_v2_t;

typedef struct {
  unsigned int version;
  unsigned char clusterUuid[16];
  nvmlReturn_t status;
  unsigned int cliqueId;
  unsigned char state;
  unsigned int healthMask;
  unsigned char healthSummary;
} nvmlGpuFabricInfo_v3_t;

typedef struct {
  unsigned int version;
  unsigned char ibGuid[16];
  unsigned char chassisSerialNumber[16];
  unsigned char slotNumber;
  unsigned char trayIndex;
  unsigned char hostId;
  unsigned char peerType;
  unsigned char moduleId;
} nvmlPlatformInfo_v2_t;

typedef union {
  double dVal;
  unsigned int uiVal;
  unsigned long long ullVal;
} nvmlValue_t;

typedef struct {
  unsigned int fieldId;
  unsigned int scopeId;
  long long timestamp;
  long long latencyUsec;
  int valueType;
  nvmlReturn_t nvmlReturn;
  nvmlValue_t value;
} nvmlFieldValue_t;
}

// A versioned structure names its own size and version in its first member.
constexpr unsigned int NvmlStructVersion(size_t size, unsigned int version) {
  return static_cast<unsigned int>(size) | version << 24;
}

static_assert(NvmlStructVersion(sizeof(nvmlGpuFabricInfo_v2_t), 2) == 0x02000024);
static_assert(NvmlStructVersion(sizeof(nvmlGpuFabricInfo_v3_t), 3) == 0x03000028);
static_assert(NvmlStructVersion(sizeof(nvmlPlatformInfo_v2_t), 2) == 0x0200002c);
static_assert(sizeof(nvmlFieldValue_t) == 40);
