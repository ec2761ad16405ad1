#include "src/kube/lease_record.h"

#include <limits>
#include <nlohmann/json.hpp>

#include "src/base/json_text.h"

namespace cd::kube {

using nlohmann::json;

namespace {

int Number(const json& spec, const char* name) {
  const json& number = MemberOf(spec, name);
  return number.is_number_integer() ? number.get<int>() : 0;
}

}  // namespace

LeaseRecord DecodeLease(const json& lease) {
  const json& spec = MemberOf(lease, "spec");
  return {.holder = TextOf(spec, "holderIdentity"),
          .duration_seconds = Number(spec, "leaseDurationSeconds"),
          .acquire_time = TextOf(spec, "acquireTime"),
          .renew_time = TextOf(spec, "renewTime"),
          .transitions = Number(spec, "leaseTransitions")};
}

void EncodeLease(const LeaseRecord& record, json& lease) {
  json& spec = lease["spec"];
  spec["holderIdentity"] = record.holder;
  spec["leaseDurationSeconds"] = record.duration_seconds;
  spec["acquireTime"] = record.acquire_time;
  spec["renewTime"] = record.renew_time;
  spec["leaseTransitions"] = record.transitions;
}

void LeaseObservation::See(const LeaseRecord& record, SteadyTime now) {
  if (changed_ && record == record_) return;
  record_ = record;
  changed_ = now;
}

bool LeaseObservation::Takeable(const std::string& identity, SteadyTime now) const {
  if (record_.holder.empty() || record_.holder == identity) return true;
  return changed_ && now >= *changed_ + std::chrono::seconds(record_.duration_seconds);
}

LeaseRecord Renewed(const LeaseRecord& current, const std::string& identity, Duration duration, WallTime now) {
  LeaseRecord record = current;
  if (current.holder != identity) {
    record.holder = identity;
    record.acquire_time = FormatMicroTime(now);
    // The first holder of all is no change of hands.
    if (!current.acquire_time.empty() && record.transitions < std::numeric_limits<int>::max()) ++record.transitions;
  }
  record.duration_seconds = static_cast<int>(std::chrono::duration_cast<std::chrono::seconds>(duration).count());
  record.renew_time = FormatMicroTime(now);
  return record;
}

LeaseRecord Released(const LeaseRecord& current, WallTime now) {
  LeaseRecord record = current;
  record.holder.clear();
  record.duration_seconds = 1;  // zero is not valid
  record.renew_time = FormatMicroTime(now);
  record.acquire_time = record.renew_time;
  return record;
}

}  // namespace cd::kube
