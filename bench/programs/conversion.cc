// What one ConversionReview costs: 5,000 ComputeDomains of 2 KB, decoded, converted and encoded on one core, beside the same
// bytes only parsed and written again.
#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "src/api/conversion.h"
#include "src/api/conversion_review.h"

namespace {

using nlohmann::json;

constexpr int kObjects = 5'000;
constexpr int kRounds = 15;
constexpr std::size_t kObjectSize = 2'048;

// As they are stored: written by a manifest, a controller, and one more that knows a lot of annotations.
json ObjectOf(int number, const char* version) {
  json object = json::parse(R"({"kind":"ComputeDomain","metadata":{"namespace":"team","generation":1,"resourceVersion":"4711",
    "creationTimestamp":"2026-01-01T00:00:00Z","finalizers":["resource.nvidia.com/computeDomain"],"labels":{"app":"training"},
    "managedFields":[{"manager":"kubectl","operation":"Apply","apiVersion":"resource.nvidia.com/v1beta1","time":"2026-01-01T00:00:00Z",
    "fieldsType":"FieldsV1","fieldsV1":{"f:spec":{"f:channel":{"f:resourceClaimTemplate":{"f:name":{}}},"f:numNodes":{}}}}]},
    "spec":{"channel":{"resourceClaimTemplate":{"name":"training-channel"},"allocationMode":"Single"}},
    "status":{"conditions":[{"type":"Ready","status":"True","reason":"AllNodesReady","message":"every node of the ComputeDomain is ready",
    "observedGeneration":1,"lastTransitionTime":"2026-01-01T00:00:00Z"}],"nodeSummary":{"total":2,"ready":2},
    "members":[{"node":"node-1","cliqueID":"c.1","address":"10.0.0.1","index":0,"ready":true},
    {"node":"node-2","cliqueID":"c.1","address":"10.0.0.2","index":1,"ready":true}]}})");
  object["apiVersion"] = cd::api::kV1Beta2;
  object["metadata"]["name"] = "training-" + std::to_string(number);
  object["metadata"]["uid"] = "00000000-0000-4000-8000-" + std::to_string(100'000'000'000 + number);
  object["spec"].update(json::parse(R"({"isolationMode":"Channel","partitionPolicy":"Any","fabricPolicy":"Required"})"));
  if (version == std::string(cd::api::kV1Beta1)) object = *cd::api::ConvertComputeDomain(object, version);
  const std::size_t size = object.dump().size();
  if (size < kObjectSize) object["metadata"]["annotations"]["note"] = std::string(kObjectSize - size, 'x');
  return object;
}

std::string ReviewOf(const char* from, const char* to) {
  json review =
      json::parse(R"({"apiVersion":"apiextensions.k8s.io/v1","kind":"ConversionReview","request":{"uid":"u","objects":[]}})");
  review["request"]["desiredAPIVersion"] = to;
  for (int i = 0; i < kObjects; ++i) review["request"]["objects"].push_back(ObjectOf(i, from));
  return review.dump();
}

double MegabytesResident() {
  long pages = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> pages >> resident;
  return static_cast<double>(resident) * static_cast<double>(::sysconf(_SC_PAGESIZE)) / 1e6;
}

// Microseconds an object, median.
double Measure(const std::function<std::size_t()>& run) {
  std::vector<double> taken;
  for (int i = 0; i < kRounds; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    if (run() == 0) return -1;
    taken.push_back(std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count() / kObjects);
  }
  std::nth_element(taken.begin(), taken.begin() + kRounds / 2, taken.end());
  return taken[kRounds / 2];
}

void Report(const char* name, const char* from, const char* to) {
  const std::string body = ReviewOf(from, to);
  const double control = Measure([&] { return json::parse(body).dump().size(); });
  const double before = MegabytesResident();
  const double converted = Measure([&] {
    const auto answer = cd::api::AnswerConversionReview(body);
    return answer.failure.empty() ? answer.body.size() : 0;
  });
  ::malloc_trim(0);  // as the webhook does
  std::printf("%-20s %8.1f MB  %6.1f us an object  %6.1f us parsed and written only  %5.2f x  resident %.0f -> %.0f MB\n", name,
              static_cast<double>(body.size()) / 1e6, converted, control, converted / control, before, MegabytesResident());
}

}  // namespace

int main() {
  Report("v1beta2 to v1beta1", cd::api::kV1Beta2, cd::api::kV1Beta1);
  Report("v1beta1 to v1beta2", cd::api::kV1Beta1, cd::api::kV1Beta2);
  return 0;
}
