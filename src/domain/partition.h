// partitionPolicy Single: all pods of a ComputeDomain run in one NVLink partition (clique). Pure.
//
// Which one is written into ComputeDomain.status.partition before the first channel is granted there. That write carries the
// version it was decided from, so two controllers cannot choose two, and a request that is carried out late grants nothing
// elsewhere.
#pragma once

#include <map>
#include <set>
#include <string>

#include "src/domain/demand.h"

namespace cd::domain {

// `standing`: what the status says. `nodes`: number of nodes with a pod, by clique. `leased`: cliques in which it has an Active
// lease. `begun`: cliques in which a node with a pod reports a channel of it.
//
// A partition stays chosen while a pod is there, or none is anywhere. Left by all pods while others wait elsewhere, it is given
// up first (empty), then its lease is drained, and only then another one is chosen: a pod that comes to the old one meanwhile
// finds its channel withdrawn, or brings the choice back, as does one that had passed its check before the lease was drained. The
// most nodes win, then the first by name. What is given here comes from a cache; see MayChangePartition for the proof.
std::string ChoosePartition(const std::string& standing, const std::map<std::string, int>& nodes,
                            const std::set<std::string>& leased, const std::set<std::string>& begun);

enum class PartitionVerdict {
  kServe,   // any, or this one
  kChoose,  // none is chosen yet: the status will say it in a moment
  kOther,   // pods run elsewhere
};
PartitionVerdict JudgePartition(const ComputeDomainView& view, const std::string& clique_id);

}  // namespace cd::domain
