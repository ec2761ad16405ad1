// What owners declare, as their objects look in the API.
#include "src/controller/workload_reader.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace cd::controller {
namespace {

using nlohmann::json;

json Object(const json& spec, const json& owner = nullptr) {
  json object{{"metadata", {{"name", "train"}}}, {"spec", spec}};
  if (!owner.is_null()) object["metadata"]["ownerReferences"] = json::array({owner});
  return object;
}

json ControlledBy(const std::string& kind) {
  return {{"apiVersion", "x/v1"}, {"kind", kind}, {"name", "above"}, {"uid", "u"}, {"controller", true}};
}

TEST(WorkloadReaderTest, job_has_its_parallelism_of_what_is_left) {
  EXPECT_EQ(DescribeWorkload("Job", Object(json::object())).declared, 1);
  EXPECT_EQ(DescribeWorkload("Job", Object({{"parallelism", 4}})).declared, 4);
  EXPECT_EQ(DescribeWorkload("Job", Object({{"parallelism", 4}, {"completions", 2}})).declared, 2);
  json late = Object({{"parallelism", 4}, {"completions", 10}});
  late["status"] = {{"succeeded", 8}};
  EXPECT_EQ(DescribeWorkload("Job", late).declared, 2);
  EXPECT_EQ(DescribeWorkload("Job", Object({{"parallelism", 4}, {"suspend", true}})).declared, 0);
  EXPECT_EQ(DescribeWorkload("Job", Object(json::object())).name, "Job train");
}

TEST(WorkloadReaderTest, stateful_set_declares_when_it_is_parallel) {
  const auto parallel = DescribeWorkload("StatefulSet", Object({{"replicas", 3}, {"podManagementPolicy", "Parallel"}}));
  EXPECT_EQ(parallel.declared, 3);
  EXPECT_FALSE(parallel.creates_by_readiness);
  EXPECT_TRUE(
      DescribeWorkload("StatefulSet", Object({{"replicas", 3}, {"podManagementPolicy", "OrderedReady"}})).creates_by_readiness);
  EXPECT_FALSE(DescribeWorkload("StatefulSet", Object({{"replicas", 1}})).creates_by_readiness) << "one pod waits for none";
}

TEST(WorkloadReaderTest, what_stands_above_decides_who_speaks) {
  EXPECT_EQ(DescribeWorkload("ReplicaSet", Object({{"replicas", 3}}, ControlledBy("Deployment"))).declared, 3);
  EXPECT_EQ(DescribeWorkload("Job", Object({{"parallelism", 2}}, ControlledBy("CronJob"))).declared, 2);
  for (const auto& [kind, above] :
       {std::pair("Job", "JobSet"), std::pair("StatefulSet", "LeaderWorkerSet"), std::pair("Job", "MPIJob")}) {
    const auto workload = DescribeWorkload(kind, Object({{"parallelism", 2}, {"replicas", 2}}, ControlledBy(above)));
    EXPECT_EQ(workload.declared, std::nullopt) << above;
    EXPECT_EQ(workload.name, std::string(above) + " above");
  }
}

}  // namespace
}  // namespace cd::controller
