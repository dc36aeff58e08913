#include <algorithm>
#include <string_view>

#include "profile/text.h"

namespace ringtape {
namespace {

/// Numbers of characters: of a line without the GPU's column, of that column, at most of a layer's path, at
/// least of the shapes.
constexpr std::size_t kLine = 120, kDeviceColumn = 8, kMaxLayer = 12, kMinShapes = 12;
constexpr const char* kEllipsis = "\u2026";

/// Percent of the limit, and which sets it: FLOPs or bytes.
std::string share_of_limit(double share, bool is_of_flops) {
  return share == 0 ? "-" : fmt::format("{:.0f}% {}", 100 * share, is_of_flops ? 'F' : 'B');
}

/// For the step: the sum of the rows' least times, and whether most of it is for FLOPs or bytes.
std::string share_of_limit(const Profile& profile) {
  double for_flops = 0;
  for (const ProfileRow& row : profile.rows) {
    if (profile.limits.is_limited_by_flops(row.work)) for_flops += profile.limits.least_seconds(row.work);
  }
  const double all = profile.least_seconds();
  return share_of_limit(profile.wall.count() > 0 ? all / seconds(profile.wall) : 0, for_flops >= all / 2);
}

/// The shapes, shortened to `room` characters.
std::string shortened(std::string shapes, std::size_t room) {
  std::erase(shapes, ',');
  if (shapes.size() <= room) return shapes;
  const std::size_t space = shapes.rfind(' ', room - 2);
  return shapes.substr(0, space == std::string::npos ? room - 1 : space + 1) + kEllipsis;
}

/// The end of a layer's path.
std::string shortened(const std::string& path) {
  return path.size() <= kMaxLayer ? path : kEllipsis + path.substr(path.size() - kMaxLayer + 1);
}

/// One line, as texts. A step has no calls, and idle time has no work.
struct Line {
  std::string_view name;
  std::string calls{}, self{}, share{}, total{}, device{};
  std::string bytes{}, flops{}, gbytes_per_second{}, gflops_per_second{}, limit{}, memory{};
  std::string layer{}, shapes{};
};

class Table {
 public:
  explicit Table(const Profile& profile) : profile_(profile) {
    for (const ProfileRow& row : profile.rows) {
      name_width_ = std::max(name_width_, row.name.size());
      layer_width_ = std::max(layer_width_, std::min(row.layer.size(), kMaxLayer));
    }
  }

  std::string text() const {
    std::string lines = write({"operation", "calls", "self ms", "share", "total", "device", "MB", "MFLOP",
                               "GB/s", "GFLOP/s", "limit", "mem MiB", "layer", "shapes"});
    ProfileRow sum;
    for (const ProfileRow& row : profile_.rows) {
      lines += write(line_of(row));
      sum.work += row.work;
      sum.device += row.device;
      sum.memory += row.memory;
    }
    lines += write({.name = kIdle,
                    .self = time_of_step(profile_, profile_.idle()),
                    .share = share_of_step(profile_, profile_.idle())});
    sum.name = "step";
    sum.self = profile_.wall;
    Line step = line_of(sum);
    step.calls = step.total = "";
    step.limit = share_of_limit(profile_);
    return lines + write(step);
  }

 private:
  Line line_of(const ProfileRow& row) const {
    return {
        .name = row.name,
        .calls = fmt::format("{:.4g}", static_cast<double>(row.calls) / static_cast<double>(profile_.steps)),
        .self = time_of_step(profile_, row.self),
        .share = share_of_step(profile_, row.self),
        .total = time_of_step(profile_, row.total),
        .device = row.device.count() > 0 ? time_of_step(profile_, row.device) : "-",
        .bytes = millions_of_step(profile_, row.work.bytes),
        .flops = millions_of_step(profile_, row.work.flops),
        .gbytes_per_second = figure(row.gbytes_per_second()),
        .gflops_per_second = figure(row.gflops_per_second()),
        .limit = share_of_limit(row.share_of_limit(profile_.limits),
                                profile_.limits.is_limited_by_flops(row.work)),
        .memory = figure(mebibytes(row.memory) / static_cast<double>(profile_.steps)),
        .layer = shortened(row.layer),
        .shapes = row.shapes};
  }

  std::string write(const Line& line) const {
    std::string text = fmt::format("{:<{}} {:>5} {:>7} {:>6} {:>7}", line.name, name_width_, line.calls,
                                   line.self, line.share, line.total);
    if (has_device_) text += fmt::format(" {:>{}}", line.device, kDeviceColumn - 1);
    text += fmt::format(" {:>5} {:>5} {:>5} {:>7} {:>6} {:>7}  {:<{}} ", line.bytes, line.flops,
                        line.gbytes_per_second, line.gflops_per_second, line.limit, line.memory, line.layer,
                        layer_width_);
    const std::size_t most = kLine + (has_device_ ? kDeviceColumn : 0);
    text += shortened(line.shapes, std::max(most, text.size() + kMinShapes) - text.size());
    return text.substr(0, text.find_last_not_of(' ') + 1) + "\n";
  }

  const Profile& profile_;
  bool has_device_ = profile_.has_device_times();
  std::size_t name_width_ = kIdle.size(), layer_width_ = std::string_view("layer").size();
};

}  // namespace

std::string profile_table(const Profile& profile) {
  return Table(profile).text();
}

}  // namespace ringtape
