// Members whose word the others contradict: nvidia-imex there says READY, and the daemons of the other nodes are not connected
// with it. Another identity than it was given, or a network that reaches it no more, looks like that. Its processes run on; a
// pod that began now would find that it can import from nobody. Pure.
#pragma once

#include <set>
#include <string>

#include "src/base/clock.h"
#include "src/domain/clique.h"

namespace cd::domain {

// How long it must last before it counts: links are made anew when a daemon restarts or an address changes.
inline constexpr Duration kUnseenFor{30'000};

// Names of members that are unseen by what is reported now. Witnesses are READY members that see another READY one: a node that
// sees nobody says something of itself. It takes two of them, and two thirds of those there are; so in a clique of two nodes
// nobody is to blame, and neither is when the network falls into halves. One that is marked already stays so while it is not
// READY: when it comes back it is for the others to say that they see it.
std::set<std::string> UnseenMembers(const Clique& clique);

}  // namespace cd::domain
