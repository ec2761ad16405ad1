// One step of a ComputeDomain: finalizer, ResourceClaimTemplate, status, deletion. Pure.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "src/base/clock.h"
#include "src/controller/decide_gate.h"
#include "src/domain/cd_status.h"

namespace cd::controller {

// The ResourceClaimTemplate of the name the ComputeDomain gives, as far as it is known.
struct TemplateView {
  bool exists = false;
  bool ours = false;  // it carries this ComputeDomain's UID
  std::string uid;
  std::string owner;  // when not ours: whose it is, for people
  // The API server's words when it last refused to create it: a quota, an admission policy. Empty: it has not.
  std::string refusal = {};
};

struct ComputeDomainSnapshot {
  std::shared_ptr<const api::ComputeDomain> cd;
  TemplateView claim_template;
  // See StatusInput.
  std::vector<std::string> nodes;
  domain::Nodes reports;
  std::map<std::string, domain::DomainPtr> domains;
  GateSnapshot gate;  // spec.gating only
  // The API server's words when it last refused our finalizer: an admission policy. Empty: it has not.
  std::string finalizer_refusal = {};
  std::string now;
  // Time since the last status write of this process that counts; nullopt: none yet.
  std::optional<Duration> since_write;
  // Time since the wish to write first differed from what is written; nullopt: it does not.
  std::optional<Duration> since_change;
};

struct ComputeDomainDecision {
  bool add_finalizer = false;
  bool create_template = false;
  bool delete_template = false;
  std::vector<std::string> drain;  // IMEXDomains that must be reconciled before the finalizer goes
  bool remove_finalizer = false;
  std::optional<api::ComputeDomainStatus> status;  // write now
  std::optional<Duration> status_due;              // or look again after
  std::set<std::string> release;                   // claims that are let go now; the order stands until it is carried out
  std::optional<Duration> gate_due;                // look at the gate again after
  bool counts = true;                              // the next write must keep its distance from this one
  bool differs = false;                            // the wish differs from what is written
};

// Writes are made in the order of the fields; the status may be decided anew after the template was tried.
// What the gate waits for.
domain::Formation FormationOf(const ComputeDomainSnapshot& snapshot);

ComputeDomainDecision DecideComputeDomain(const ComputeDomainSnapshot& snapshot);

}  // namespace cd::controller
