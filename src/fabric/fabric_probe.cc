#include "src/fabric/fabric_probe.h"

#include <dlfcn.h>
#include <sys/stat.h>

#include <algorithm>
#include <utility>

#include "src/base/result.h"
#include "src/fabric/nvml_abi.h"

namespace cd::fabric {
namespace {

namespace fs = std::filesystem;

#if defined(__aarch64__)
constexpr char kTriplet[] = "aarch64-linux-gnu";
#else
constexpr char kTriplet[] = "x86_64-linux-gnu";
#endif
constexpr char kLibrary[] = "libnvidia-ml.so.1";

// Follows symlinks as a process chrooted to `root` would: an absolute target of a mounted driver root means the root, not ours.
std::optional<fs::path> ResolveInside(const fs::path& root, fs::path path) {
  std::error_code error;
  for (int links = 0; links < 8; ++links) {
    const auto kind = fs::symlink_status(path, error);
    if (error) return std::nullopt;
    if (fs::is_regular_file(kind)) return path;
    if (!fs::is_symlink(kind)) return std::nullopt;
    const fs::path target = fs::read_symlink(path, error);
    if (error) return std::nullopt;
    path = target.is_absolute() ? root / target.relative_path() : path.parent_path() / target;
  }
  return std::nullopt;
}

// Which file was loaded: an update of the driver replaces it.
struct FileIdentity {
  dev_t device = 0;
  ino_t inode = 0;
  timespec changed{};
  bool operator==(const FileIdentity& other) const {
    return device == other.device && inode == other.inode && changed.tv_sec == other.changed.tv_sec &&
           changed.tv_nsec == other.changed.tv_nsec;
  }
};

std::optional<FileIdentity> IdentityOf(const fs::path& path) {
  struct stat info;
  if (::stat(path.c_str(), &info) != 0) return std::nullopt;
  return FileIdentity{info.st_dev, info.st_ino, info.st_mtim};
}

}  // namespace

std::optional<fs::path> FindNvml(const fs::path& driver_root) {
  const fs::path folders[] = {fs::path("usr/lib") / kTriplet, "usr/lib64", "usr/lib", fs::path("lib") / kTriplet, "lib64"};
  for (const fs::path& folder : folders) {
    if (auto file = ResolveInside(driver_root, driver_root / folder / kLibrary)) return file;
  }
  return std::nullopt;
}

// One loaded and initialised library; shut down and unloaded by its destructor.
class FabricProbe::Library {
 public:
  static Result<std::unique_ptr<Library>> Load(const fs::path& path, FileIdentity identity);
  ~Library();
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  bool IsFile(const FileIdentity& identity) const { return identity_ == identity; }
  Result<FabricReading> Read() const;

 private:
  explicit Library(FileIdentity identity) : identity_(identity) {}

  template <typename F>
  void Bind(F*& function, const char* name) {
    function = reinterpret_cast<F*>(::dlsym(handle_, name));
  }
  Error Failure(const char* call, nvml::Return code) const;
  Result<GpuFabric> ReadGpu(unsigned int index) const;
  nvml::Return ReadFabric(nvml::Device device, GpuFabric& gpu) const;

  FileIdentity identity_;
  void* handle_ = nullptr;
  bool initialised_ = false;
  nvml::Return (*init_)(unsigned int) = nullptr;
  nvml::Return (*shutdown_)() = nullptr;
  const char* (*error_string_)(nvml::Return) = nullptr;
  nvml::Return (*driver_version_)(char*, unsigned int) = nullptr;
  nvml::Return (*count_)(unsigned int*) = nullptr;
  nvml::Return (*handle_by_index_)(unsigned int, nvml::Device*) = nullptr;
  nvml::Return (*uuid_)(nvml::Device, char*, unsigned int) = nullptr;
  nvml::Return (*fabric_info_)(nvml::Device, void*) = nullptr;            // may be missing in old drivers
  nvml::Return (*fabric_info_versioned_)(nvml::Device, void*) = nullptr;  // may be missing in old drivers
};

Result<std::unique_ptr<FabricProbe::Library>> FabricProbe::Library::Load(const fs::path& path, FileIdentity identity) {
  std::unique_ptr<Library> library(new Library(identity));
  library->handle_ = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library->handle_ == nullptr) {
    const char* reason = ::dlerror();
    return Fail(ErrorCode::kUnavailable, "cannot load NVML: " + std::string(reason != nullptr ? reason : "unknown reason"));
  }
  library->Bind(library->init_, "nvmlInitWithFlags");
  library->Bind(library->shutdown_, "nvmlShutdown");
  library->Bind(library->error_string_, "nvmlErrorString");
  library->Bind(library->driver_version_, "nvmlSystemGetDriverVersion");
  library->Bind(library->count_, "nvmlDeviceGetCount_v2");
  library->Bind(library->handle_by_index_, "nvmlDeviceGetHandleByIndex_v2");
  library->Bind(library->uuid_, "nvmlDeviceGetUUID");
  library->Bind(library->fabric_info_, "nvmlDeviceGetGpuFabricInfo");
  library->Bind(library->fabric_info_versioned_, "nvmlDeviceGetGpuFabricInfoV");
  if (!library->init_ || !library->shutdown_ || !library->driver_version_ || !library->count_ || !library->handle_by_index_ ||
      !library->uuid_) {
    return Fail(ErrorCode::kFailedPrecondition, path.string() + " lacks functions of NVML: not a library of the NVIDIA driver");
  }
  if (const nvml::Return code = library->init_(nvml::kInitNoGpus); code != nvml::kSuccess) {
    return Fail(library->Failure("nvmlInitWithFlags", code));
  }
  library->initialised_ = true;
  return library;
}

FabricProbe::Library::~Library() {
  if (initialised_) shutdown_();
  if (handle_ != nullptr) ::dlclose(handle_);
}

Error FabricProbe::Library::Failure(const char* call, nvml::Return code) const {
  const char* words = error_string_ != nullptr ? error_string_(code) : nullptr;
  return Error{ErrorCode::kUnavailable, std::string("the NVIDIA driver does not answer: ") + call + ": " +
                                            (words != nullptr ? words : "NVML error") + " (" + std::to_string(code) + ")"};
}

Result<FabricReading> FabricProbe::Library::Read() const {
  FabricReading reading;
  char text[nvml::kTextSize] = {};
  if (auto code = driver_version_(text, sizeof text - 1); code != nvml::kSuccess) return Fail(Failure("driver version", code));
  reading.driver_version = text;
  unsigned int count = 0;
  if (auto code = count_(&count); code != nvml::kSuccess) return Fail(Failure("GPU count", code));
  for (unsigned int i = 0; i < count; ++i) {
    auto gpu = ReadGpu(i);
    if (!gpu) return Fail(gpu.error());
    reading.gpus.push_back(std::move(*gpu));
  }
  return reading;
}

// A single GPU that does not answer (fallen off the bus, in reset) is a finding about that GPU; a driver that is gone fails.
Result<GpuFabric> FabricProbe::Library::ReadGpu(unsigned int index) const {
  GpuFabric gpu;
  gpu.uuid = "GPU " + std::to_string(index);
  nvml::Device device = nullptr;
  char text[nvml::kTextSize] = {};
  nvml::Return code = handle_by_index_(index, &device);
  if (code == nvml::kSuccess) code = uuid_(device, text, sizeof text - 1);
  if (code == nvml::kSuccess) {
    gpu.uuid = text;
    code = ReadFabric(device, gpu);
    if (code == nvml::kNotSupported || code == nvml::kFunctionNotFound) return gpu;  // state stays "not supported"
  }
  if (code == nvml::kUninitialized || code == nvml::kDriverNotLoaded || code == nvml::kLibraryMismatch) {
    return Fail(Failure("GPU fabric state", code));
  }
  gpu.query_error = code;
  return gpu;
}

// Newest structure first: a driver refuses the versions it does not know.
nvml::Return FabricProbe::Library::ReadFabric(nvml::Device device, GpuFabric& gpu) const {
  const auto take = [&gpu](const auto& info) {
    std::copy(std::begin(info.cluster_uuid), std::end(info.cluster_uuid), gpu.cluster_uuid.begin());
    gpu.status = info.status;
    gpu.clique_id = info.clique_id;
    gpu.state = info.state;
  };
  nvml::Return code = nvml::kFunctionNotFound;
  if (fabric_info_versioned_ != nullptr) {
    nvml::FabricInfoV3 v3{};
    v3.version = nvml::StructVersion(sizeof v3, 3);
    code = fabric_info_versioned_(device, &v3);
    if (code == nvml::kSuccess) {
      take(v3);
      gpu.health_mask = v3.health_mask;
      gpu.health_summary = v3.health_summary;
    }
    if (code != nvml::kVersionMismatch) return code;
    nvml::FabricInfoV2 v2{};
    v2.version = nvml::StructVersion(sizeof v2, 2);
    code = fabric_info_versioned_(device, &v2);
    if (code == nvml::kSuccess) {
      take(v2);
      gpu.health_mask = v2.health_mask;
    }
    if (code != nvml::kVersionMismatch) return code;
  }
  if (fabric_info_ == nullptr) return code;
  nvml::FabricInfoV1 v1{};
  code = fabric_info_(device, &v1);
  if (code == nvml::kSuccess) take(v1);
  return code;
}

FabricProbe::FabricProbe(fs::path driver_root) : driver_root_(std::move(driver_root)) {}
FabricProbe::~FabricProbe() = default;
FabricProbe::FabricProbe(FabricProbe&&) noexcept = default;
FabricProbe& FabricProbe::operator=(FabricProbe&&) noexcept = default;

FabricView FabricProbe::Read() {
  return Classify(ReadGpus());
}

FabricReading FabricProbe::ReadGpus() {
  const auto failed = [this](std::string why) {
    library_.reset();  // the next reading starts anew
    return FabricReading{"", {}, std::move(why)};
  };
  const auto path = FindNvml(driver_root_);
  const auto identity = path ? IdentityOf(*path) : std::nullopt;
  if (!identity) {
    return failed(std::string("no NVIDIA driver: ") + kLibrary + " is not below the driver root " + driver_root_.string());
  }
  if (library_ && !library_->IsFile(*identity)) library_.reset();
  if (!library_) {
    auto loaded = Library::Load(*path, *identity);
    if (!loaded) return failed(loaded.error().message);
    library_ = std::move(*loaded);
  }
  auto reading = library_->Read();
  if (!reading) return failed(reading.error().message);
  return std::move(*reading);
}

}  // namespace cd::fabric
