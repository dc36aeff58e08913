#pragma once

#include <string>
#include <utility>
#include <vector>

#include "io/json.h"
#include "train/report/run_report.h"

/// A report as a JSON document: formatted texts, tables, and charts as SVG. template.html displays it.
namespace ringtape::report {

/// The whole report. A section without content is null.
Json document_of(const RunReport& report);

// The sections of the document; null without content.
Json curves_of(const RunReport& report);    ///< {"charts": [{"caption", "svg"}], "has_bands"}
Json profile_of(const RunReport& report);   ///< steps, phases, suggestions, tables by operation and by layer
Json roofline_of(const RunReport& report);  ///< {"legend", "svg"}
Json texts_of(const RunReport& report);     ///< [{"step", "title", "text"}]
Json memory_of(const RunReport& report);    ///< {"step", "legend", "svg", "table"}

/// [{"name", "value"}]
Json facts_of(const std::vector<Fact>& facts);
/// [{"name", "colour"}]: each name with the number of its colour.
Json legend_json(const std::vector<std::pair<std::string, int>>& names);
/// A column of a table. A table is {"columns": [column], "rows": [{"cells": [text]}]}. A row may also have a
/// "kind" ("sum" or "rest"), a "detail" for its first cell, and the length of a "bar", from 0 to 1.
Json column(const std::string& name, bool is_number = true, const std::string& tip = "");

}  // namespace ringtape::report
