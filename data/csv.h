#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "data/dataset.h"

namespace ringtape {

/// Reads a table of numbers separated by commas, one row per line, for regression. Features: [rows,
/// columns - 1]. Targets: [rows, 1], the last column. Both are of `dtype`, f32 or f64; f64 keeps the
/// differences of large numbers until they are standardised. A first line in which no field is a number holds
/// the names of the columns. Only the first name may be empty, as in ",a,b": pandas leaves out the name of
/// its index column, which is a feature like the others. Numbers are written as in C++ ("-1.5e3"), or with a
/// plus sign, with '.' in every locale. Quotes around a field (RFC 4180), blanks, empty lines at the end and
/// a byte order mark at the start are allowed; other empty lines are errors. A gzipped file is decompressed,
/// whatever its name; "-" is standard input, the only pipe that is read. Throws Error that names line and
/// column for a field that is not a finite number in the range of f32, with both dtypes, and for a row with
/// more or fewer fields than the first; also for a table without rows or with a single column, and for
/// another dtype.
TensorDataset read_csv(const std::filesystem::path& path, DType dtype = DType::f32);

/// The same for a file already in memory; `name` stands for the file in error texts.
TensorDataset parse_csv(std::string_view text, const std::string& name, DType dtype = DType::f32);

}  // namespace ringtape
