// ComputeDomain v1beta1 ↔ v1beta2 (hub and stored version). Pure.
//
// Nothing is lost either way. What a version cannot say is carried in an annotation that is visible in that version:
//
//   on a v1beta1 object  resource.nvidia.com/v1beta2-fields: {"gating":{"minNodes":4}}   what differs from what v1beta1 means
//   on a v1beta2 object  resource.nvidia.com/v1beta1-fields: {"numNodes":4}              what v1beta2 no longer has
//
// A v1beta1 object means isolationMode Channel (Domain where allocationMode is All), partitionPolicy Any, fabricPolicy Optional
// and no gating. Its annotation names other values of these fields, and of gating and imex; null says that a field is absent. A
// user of v1beta1 may set it at creation. Text that is no such object, or contradicts allocationMode, counts as absent and stays
// where it is: on the stored object, where admission sees it.
//
// v1beta1 status: `status` and `nodes` are derived. The API server converts the stored status too when a v1beta1 client writes
// metadata, so the whole of it is carried in status.v1beta2; a v1beta1 status without it (stored by another driver) becomes
// members.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string_view>

#include "src/base/result.h"

namespace cd::api {

inline constexpr char kV1Beta1[] = "resource.nvidia.com/v1beta1";
inline constexpr char kV1Beta2[] = "resource.nvidia.com/v1beta2";
inline constexpr char kV1Beta2Fields[] = "resource.nvidia.com/v1beta2-fields";
inline constexpr char kV1Beta1Fields[] = "resource.nvidia.com/v1beta1-fields";

// Everything but apiVersion, annotations, spec and status stays as it is; an object of the desired version is returned untouched.
// No defaulting and no validation: what the stored spec says wrongly is said wrongly in both versions. kInvalidArgument: not a
// ComputeDomain of a version we know, or a version we do not know is asked for.
Result<nlohmann::json> ConvertComputeDomain(nlohmann::json object, std::string_view desired_api_version);

}  // namespace cd::api
