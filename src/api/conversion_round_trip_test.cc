// Random valid objects of either version, through the other and back: nothing is lost, whatever a client of the other version
// writes that knows nothing of this one.
#include <gtest/gtest.h>

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <random>

#include "src/api/conversion.h"

namespace cd::api {
namespace {

using nlohmann::json;

// CD_ROUND_TRIPS objects of each version, if it is set: 500,000 take two minutes.
int Objects() {
#if defined(CD_SANITIZED)
  constexpr int kUsually = 5'000;  // sanitized code is slower
#else
  constexpr int kUsually = 50'000;
#endif
  const char* wanted = std::getenv("CD_ROUND_TRIPS");
  return wanted == nullptr ? kUsually : std::atoi(wanted);
}

class Generator {
 public:
  explicit Generator(std::uint32_t seed) : random_(seed) {}

  int Below(int end) { return static_cast<int>(random_() % static_cast<std::uint32_t>(end)); }
  bool Half() { return Below(2) == 0; }
  const char* OneOf(std::initializer_list<const char*> words) { return *(words.begin() + Below(static_cast<int>(words.size()))); }

  json Metadata() {
    json metadata = json::object();
    metadata["name"] = "cd-" + std::to_string(Below(1'000));
    metadata["namespace"] = OneOf({"team", "default"});
    metadata["uid"] = std::to_string(random_());
    if (Half()) metadata["labels"]["a"] = OneOf({"", "x"});
    if (Half()) metadata["annotations"]["note"] = OneOf({"", "{}", "\u00e9\n"});
    if (Half()) metadata["finalizers"] = json::array({"f"});
    return metadata;
  }
  json Channel() {
    json channel = json::object();
    channel["resourceClaimTemplate"]["name"] = "t" + std::to_string(Below(100));
    channel["allocationMode"] = OneOf({"Single", "Single", "All"});
    return channel;
  }
  json Gating() {
    json gating = json::object();
    if (Half()) gating["minNodes"] = 1 + Below(10'000);
    gating["settleSeconds"] = Below(3'601);
    gating["timeoutSeconds"] = 1 + Below(86'400);
    gating["onTimeout"] = OneOf({"Fail", "Release"});
    return gating;
  }
  json Imex() {
    json imex = json::object();
    imex["logLevel"] = Below(5);
    if (Half()) imex["waitForQuorum"] = OneOf({"NONE", "RECOVERY", "FULL"});
    if (Half()) imex["nodeDisconnectedGraceSeconds"] = Below(100) - 1;
    return imex;
  }
  // What v1beta2 has beyond v1beta1, all of it or what somebody cared to write.
  json Fields(bool all_channels, bool whole) {
    json fields = json::object();
    if (whole || all_channels || Half()) fields["isolationMode"] = all_channels ? "Domain" : OneOf({"Channel", "Domain"});
    if (whole || Half()) fields["partitionPolicy"] = OneOf({"Any", "Single"});
    if (whole || Half()) fields["fabricPolicy"] = OneOf({"Required", "Optional"});
    if (Half()) fields["gating"] = Gating();
    if (fields.value("isolationMode", "") == "Domain" && Half()) fields["imex"] = Imex();
    return fields;
  }
  // By a person: with blanks or without, and without what has a default.
  std::string Written(json fields) {
    if (fields.contains("gating") && Half()) fields["gating"].erase("onTimeout");
    return fields.dump(Half() ? 2 : -1);
  }
  json OfV1Beta2() {
    json object = Head(kV1Beta2);
    json& spec = object["spec"] = json::object();
    spec["channel"] = Channel();
    // Without the defaults, too, as some tests and tools store them.
    spec.update(Fields(spec["channel"]["allocationMode"] == "All", Below(4) != 0));
    if (Half()) object["metadata"]["annotations"][kV1Beta1Fields] = OneOf({R"({"numNodes":18})", "{", R"({"numNodes":0})", "x"});
    return object;
  }
  json OfV1Beta1() {
    json object = Head(kV1Beta1);
    json& spec = object["spec"] = json::object();
    spec["channel"] = Channel();
    spec["numNodes"] = Half() ? 0 : Below(600);
    const bool all = spec["channel"]["allocationMode"] == "All";
    if (Half()) object["metadata"]["annotations"][kV1Beta2Fields] = Written(Fields(all, false));
    if (Below(8) == 0) object["metadata"]["annotations"][kV1Beta2Fields] = OneOf({"{", "[]", R"({"gating":7})", R"({"new":1})"});
    return object;
  }

 private:
  json Head(const char* version) {
    json object = json::object();
    object["apiVersion"] = version;
    object["kind"] = "ComputeDomain";
    object["metadata"] = Metadata();
    return object;
  }

  std::mt19937 random_;
};

json Convert(json object, const char* version) {
  auto converted = ConvertComputeDomain(std::move(object), version);
  return converted ? *std::move(converted) : json(converted.error().message);
}

// GET, a label, PUT.
json Labelled(json object) {
  object["metadata"]["labels"]["edited"] = "yes";
  return object;
}

void ExpectNothingLost(const json& object, const char* own, const char* other) {
  const json seen = Convert(object, other);
  EXPECT_EQ(Convert(seen, own), object) << seen.dump();
  EXPECT_EQ(Convert(Labelled(seen), own), Labelled(object)) << seen.dump();
}

TEST(RoundTrip, from_v1beta1_loses_nothing) {
  Generator generator(1);
  for (int i = Objects(); i > 0 && !testing::Test::HasFailure(); --i)
    ExpectNothingLost(generator.OfV1Beta1(), kV1Beta1, kV1Beta2);
}

TEST(RoundTrip, from_v1beta2_loses_nothing) {
  Generator generator(2);
  for (int i = Objects(); i > 0 && !testing::Test::HasFailure(); --i)
    ExpectNothingLost(generator.OfV1Beta2(), kV1Beta2, kV1Beta1);
}

}  // namespace
}  // namespace cd::api
