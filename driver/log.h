// GRAPHOPT_LOG=graph,guards,...: what the driver says on standard error while it works. Channels: log.def.
#pragma once
#include <string_view>

namespace graphopt::driver {

enum class Channel {
#define CHANNEL(name, help) name,
#include "driver/log.def"
#undef CHANNEL
};

/// Whether GRAPHOPT_LOG names the channel ("all" names every one). Read once; an unknown name is said once.
bool logs(Channel channel);
/// Writes "[graphopt:channel] text", each line of the text with the prefix, if the channel is on. At most 200
/// texts in ten seconds; then it says how many were left out.
void log(Channel channel, std::string_view text);

} // namespace graphopt::driver
