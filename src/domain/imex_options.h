// Settings of nvidia-imex that users may choose: per ComputeDomain for an exclusive IMEX domain, per cluster for shared ones.
// Pure.
#pragma once

#include <optional>
#include <string>

#include "src/api/imex_domain.h"

namespace cd::domain {

// What the daemons do when nobody chooses. NONE: a node map has spare lines, and a daemon must not wait for them.
inline constexpr char kDefaultQuorum[] = "NONE";
inline constexpr int kDefaultGraceSeconds = -1;
inline constexpr int kDefaultImexLogLevel = 4;

// `wishes` where they say something, else `cluster`.
api::ImexConfig OptionsOver(const api::ImexConfig& cluster, const std::optional<api::ImexConfig>& wishes);

// With what is not said taken for the default.
bool SameOptions(const api::ImexConfig& a, const api::ImexConfig& b);

// Why no version of the driver could honour the options; nullopt: some can. Names option, value, remedy; `field` is where they
// stand, e.g. "spec.imex".
std::optional<std::string> WhyNotPossible(const api::ImexConfig& options, const std::string& field);

// The options that nvidia-imex of this driver version does not know, by name and value, with the first version that does;
// nullopt: it knows all of them. An empty version, or one that cannot be read, is taken for new enough: the daemon itself
// compares its version with the kernel driver's. Values that are the default ask for nothing.
std::optional<std::string> UnknownToDriver(const api::ImexConfig& options, const std::string& driver_version);

}  // namespace cd::domain
