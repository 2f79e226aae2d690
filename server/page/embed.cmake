# SPDX-License-Identifier: MIT
# Writes a file as a C array: cmake -D FILE=... -D OUT=... -P embed.cmake
file(READ ${FILE} bytes HEX)
string(REGEX REPLACE "(................................)" "\\1\n" bytes "${bytes}")
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
file(WRITE ${OUT} "// SPDX-License-Identifier: MIT\n// Made by server/page/embed.cmake.\n"
     "#include \"server/page.h\"\n\nconst unsigned char server_page[] = {\n${bytes}0};\n"
     "const size_t server_page_bytes = sizeof server_page - 1;\n")
