// The planted defects of a controller: what it sends, is told and sees instead of the truth.
#pragma once

#include "tests/simulation/context.h"

namespace cd::simulation {

void PlantControllerBugs(Context& context, Client& client);

}  // namespace cd::simulation
