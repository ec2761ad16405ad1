// Deliberate defects of the protocol, played outside of the product: each is what a process would send, read or keep if its code
// had that mistake. The simulation is worth something because it finds every one.
#pragma once

#include <array>
#include <string_view>
#include <utility>

namespace cd::simulation {

enum class Bug {
  kSkipAnnounce,
  kStaleCheck,
  kNoPrecondition,
  kStaleLook,
  kForgetLingering,
  kSlotAtOnce,
  kStaleLiveness,
  kResurrect,
  kIgnoreLock,
  kForgetWithdrawal,
  kBlindRebuild,
  kSwitchUnderChannels,
  kForgetCheckpoint,
  kReportLess,
  kReleaseAtOnce,
  kSickIsNone,
  kStaleClaims,
  kIgnoreMove,
  kForgetIsolation,
};

inline constexpr std::array<std::pair<Bug, std::string_view>, 19> kBugs{{
    {Bug::kSkipAnnounce, "skip-announce"},          // the check comes before the report
    {Bug::kStaleCheck, "stale-check"},              // the check reads a cache
    {Bug::kNoPrecondition, "no-precondition"},      // the controller writes IMEXDomains whatever their version
    {Bug::kStaleLook, "stale-look"},                // the list of IMEXNodes comes from a cache
    {Bug::kForgetLingering, "forget-lingering"},    // Unprepare counts as proof of death
    {Bug::kSlotAtOnce, "slot-at-once"},             // an absent Node counts as dead at once
    {Bug::kStaleLiveness, "stale-liveness"},        // whether a ComputeDomain lives is read from a cache
    {Bug::kResurrect, "resurrect"},                 // a Prepare may complete after the claim's Unprepare
    {Bug::kIgnoreLock, "ignore-lock"},              // a second instance does not wait for the node lock
    {Bug::kForgetWithdrawal, "forget-withdrawal"},  // a Prepare counts on a report that is being withdrawn
    {Bug::kBlindRebuild, "blind-rebuild"},          // a lost IMEXDomain is made anew from nothing
    {Bug::kSwitchUnderChannels, "switch-domain"},   // the daemon changes its domain under held channels
    {Bug::kForgetCheckpoint, "forget-checkpoint"},  // a plugin starts with an empty checkpoint and no markers
    {Bug::kReportLess, "report-less"},              // the report names the last channel only
    {Bug::kReleaseAtOnce, "release-at-once"},       // gating: leases are born released
    {Bug::kSickIsNone, "sick-is-none"},             // a sick fabric is taken for no fabric
    {Bug::kStaleClaims, "stale-claims"},            // partitionPolicy Single: the lists of claims come from a cache
    {Bug::kIgnoreMove, "ignore-move"},              // a channel is used although the node was moved before it was announced
    {Bug::kForgetIsolation, "forget-isolation"},    // the controller takes isolationMode Domain for Channel
}};

std::string_view NameOf(Bug bug);

}  // namespace cd::simulation
