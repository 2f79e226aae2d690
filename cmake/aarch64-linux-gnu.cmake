# SPDX-License-Identifier: MIT
# Cross build for AArch64 Linux with Debian's compiler; tests run under qemu-user. The libraries that the
# engine and the tests need lie where scripts/arm64-libraries unpacks them.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
get_filename_component(arm64_root ${CMAKE_CURRENT_LIST_DIR}/../build/arm64 ABSOLUTE)
set(arm64_libraries ${arm64_root}/usr/lib/aarch64-linux-gnu:${arm64_root}/lib/aarch64-linux-gnu)
set(CMAKE_FIND_ROOT_PATH /usr/aarch64-linux-gnu ${arm64_root})
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
# Libraries of the build machine are not for the target.
set(ENV{PKG_CONFIG_LIBDIR} ${arm64_root}/usr/lib/aarch64-linux-gnu/pkgconfig)
set(ENV{PKG_CONFIG_SYSROOT_DIR} ${arm64_root})
# Libraries that these libraries need are found here when linking and when running.
set(CMAKE_EXE_LINKER_FLAGS_INIT -Wl,-rpath-link,${arm64_libraries})
set(CMAKE_CROSSCOMPILING_EMULATOR
    qemu-aarch64;-L;/usr/aarch64-linux-gnu;-E;LD_LIBRARY_PATH=${arm64_libraries})
