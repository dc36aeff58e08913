#include "dist/mesh_traffic.h"

#include <algorithm>

#include "dist/traffic.h"

namespace ringtape {

MeshTraffic::MeshTraffic(const Mesh& mesh, const std::vector<std::shared_ptr<Communicator>>& others) {
  std::vector<std::shared_ptr<Communicator>> all = {mesh.data_and_context(),
                                                    mesh.along(MeshDimension::tensor),
                                                    mesh.along(MeshDimension::context),
                                                    mesh.along(MeshDimension::data),
                                                    mesh.along(MeshDimension::pipeline),
                                                    mesh.world()};
  all.insert(all.end(), others.begin(), others.end());
  for (const std::shared_ptr<Communicator>& comm : all) {
    if (comm == nullptr || comm->size() == 1) continue;
    const bool is_there =
        std::find(communicators_.begin(), communicators_.end(), comm) != communicators_.end();
    if (!is_there) communicators_.push_back(comm);
  }
  for (const auto& comm : communicators_) before_.push_back(comm->collectives());
}

std::vector<MeshTraffic::Group> MeshTraffic::groups() const {
  std::vector<Group> groups;
  for (std::size_t i = 0; i < communicators_.size(); ++i) {
    const Communicator& comm = *communicators_[i];
    const CollectiveCounts counts = difference(before_[i], comm.collectives());
    const auto same = std::find_if(groups.begin(), groups.end(), [&comm](const Group& each) {
      return each.name == comm.group() && each.ranks == comm.size();
    });
    if (same == groups.end()) {
      groups.push_back({comm.group(), comm.size(), counts});
      continue;
    }
    for (std::size_t o = 0; o < counts.size(); ++o) {
      same->counts[o].calls += counts[o].calls;
      same->counts[o].bytes += counts[o].bytes;
    }
  }
  return groups;
}

double MeshTraffic::bytes_sent() const {
  double bytes = 0;
  for (const Group& each : groups()) bytes += ringtape::bytes_sent(each.counts, each.ranks);
  return bytes;
}

std::string MeshTraffic::table() const {
  std::string text;
  for (const Group& each : groups()) {
    const bool is_silent = std::all_of(each.counts.begin(), each.counts.end(),
                                       [](const CollectiveCount& count) { return count.calls == 0; });
    if (is_silent) continue;
    if (!text.empty()) text += "\n";
    text += traffic_table(each.counts, each.name, each.ranks);
  }
  return text;
}

}  // namespace ringtape
