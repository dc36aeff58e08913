# cmake -DSOURCE=... -DHEADER=... -P revision.cmake: writes a header with the commit of the build, with "-dirty" if files
# differ from it. An up-to-date header is not rewritten, so that nothing is recompiled.
cmake_minimum_required(VERSION 3.22)
execute_process(COMMAND git -C ${SOURCE} describe --always --dirty --exclude=* OUTPUT_VARIABLE revision
  OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE status)
if(NOT status EQUAL 0)
  set(revision "")  # no repository, or no git
endif()
file(CONFIGURE OUTPUT ${HEADER} CONTENT "#define RINGTAPE_REVISION \"@revision@\"\n" @ONLY)
