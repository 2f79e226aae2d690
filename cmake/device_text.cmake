# SPDX-License-Identifier: MIT
# The texts that NVRTC compiles at run time, as C arrays: every .cu and .cuh of src/kernels/, and the
# headers that C and device text share. A file's name is its path from the root of the tree, as
# #include has it.
#
# As a script (cmake -D ROOT=... -D FILES=... -D OUT=... -P device_text.cmake) it writes the C file;
# included, it adds the command that does, and sets WEFT_DEVICE_TEXT to the file.
if(CMAKE_SCRIPT_MODE_FILE)
  set(text "// SPDX-License-Identifier: MIT\n// Made by cmake/device_text.cmake.\n")
  string(APPEND text "#include \"src/backend/cuda/device_text.h\"\n\n")
  set(rows "")
  set(count 0)
  string(REPLACE "," ";" FILES "${FILES}")
  foreach(name ${FILES})
    file(READ ${ROOT}/${name} bytes HEX)
    string(LENGTH "${bytes}" digits)
    math(EXPR length "${digits} / 2")
    string(REGEX REPLACE "(................................)" "\\1\n" bytes "${bytes}")
    string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
    string(APPEND text "static const unsigned char text_${count}[] = {\n${bytes}0};\n")
    string(APPEND rows "    {\"${name}\", (const char *)text_${count}, ${length}},\n")
    math(EXPR count "${count} + 1")
  endforeach()
  string(APPEND text "\nconst struct weft__device_text weft__device_texts[] = {\n${rows}};\n")
  string(APPEND text "const int32_t weft__num_device_texts = ${count};\n")
  file(WRITE ${OUT} "${text}")
  return()
endif()

file(GLOB device_files RELATIVE ${PROJECT_SOURCE_DIR} CONFIGURE_DEPENDS
     ${PROJECT_SOURCE_DIR}/src/kernels/*/*.cu ${PROJECT_SOURCE_DIR}/src/kernels/*/*.cuh
     ${PROJECT_SOURCE_DIR}/src/kernels/*/*_device.h ${PROJECT_SOURCE_DIR}/src/formats/*.h
     ${PROJECT_SOURCE_DIR}/src/formats/*.def ${PROJECT_SOURCE_DIR}/src/formats/iq_grids.c
     ${PROJECT_SOURCE_DIR}/src/base/half.h ${PROJECT_SOURCE_DIR}/include/weft/formats.def)
list(SORT device_files)
set(WEFT_DEVICE_TEXT ${PROJECT_BINARY_DIR}/device_text.c)
list(JOIN device_files "," device_list)
list(TRANSFORM device_files PREPEND ${PROJECT_SOURCE_DIR}/ OUTPUT_VARIABLE device_depends)
add_custom_command(
  OUTPUT ${WEFT_DEVICE_TEXT}
  COMMAND ${CMAKE_COMMAND} -D ROOT=${PROJECT_SOURCE_DIR} -D FILES=${device_list}
          -D OUT=${WEFT_DEVICE_TEXT} -P ${CMAKE_CURRENT_LIST_FILE}
  DEPENDS ${device_depends} ${CMAKE_CURRENT_LIST_FILE}
  COMMENT "Embedding device text"
  VERBATIM)
