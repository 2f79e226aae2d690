// SPDX-License-Identifier: MIT
// The compiler of the emulator: g++ in the place of NVRTC. Texts lie in a folder of the process, programs in a
// folder below, so that those that say what the machine does (emulator.h) are found in EMULATOR_DEVICE before
// them.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/emulator/emulator.h"
#include "tests/support/scratch.h"

enum { MOST_ARGUMENTS = 96, PATH_BYTES = 512 };

static char folder[SCRATCH_PATH_BYTES];
static pthread_once_t folder_once = PTHREAD_ONCE_INIT;
static int programs;

static void make_folder(void)
{
    scratch_folder(folder);
}

static __attribute__((destructor)) void remove_folder(void)
{
    if (folder[0])
        scratch_remove(folder);
}

// Creates the folders above a file.
static void make_parents(char *path)
{
    for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        mkdir(path, 0777);
        *slash = '/';
    }
}

// Dynamic shared memory is declared `extern __shared__ __align__(N) TYPE NAME[];`: it becomes a pointer.
static void write_text(FILE *out, const char *text)
{
    static const char declaration[] = "extern __shared__";
    for (const char *found; (found = strstr(text, declaration)); text = strchr(found, '\n')) {
        char type[64], name[64];
        fwrite(text, 1, (size_t)(found - text), out);
        if (sscanf(found, "extern __shared__ __align__(%*d) %63s %63[a-z_][];", type, name) == 2)
            fprintf(out, "%s *const %s = (%s *)emulated->shared();", type, name, type);
    }
    fputs(text, out);
}

// A library has a function emulated_run_NAME for every kernel of the text.
static void write_entries(FILE *out, const char *text)
{
    static const char word[] = "__global__";
    for (const char *at = strstr(text, word); at; at = strstr(at + 1, word)) {
        const char *open = strchr(at, '(');
        if (open && open - at > 17 && memcmp(open - 17, "__launch_bounds__", 17) == 0)
            open = strchr(strchr(open, ')'), '(');
        if (!open)
            return;
        const char *name = open;
        while (name[-1] == '_' || (name[-1] >= 'a' && name[-1] <= 'z') ||
               (name[-1] >= '0' && name[-1] <= '9'))
            name--;
        fprintf(out, "\nEMULATED_ENTRY(%.*s)\n", (int)(open - name), name);
    }
}

static bool write_file(const char *root, const char *name, const char *text, bool entries)
{
    char path[PATH_BYTES];
    snprintf(path, sizeof path, "%s/%s", root, name);
    make_parents(path);
    FILE *out = fopen(path, "w");
    if (!out)
        return false;
    write_text(out, text);
    if (entries)
        write_entries(out, text);
    return fclose(out) == 0;
}

// The headers of every program are the same: written once.
static bool write_headers(int num_headers, const char *const *headers, const char *const *names)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static bool written;
    pthread_mutex_lock(&lock);
    bool fine = true;
    for (int i = 0; i < num_headers && fine && !written; i++)
        fine = !strchr(names[i], '/') || write_file(folder, names[i], headers[i], false);
    written = written || fine;
    pthread_mutex_unlock(&lock);
    return fine;
}

struct command {
    const char *list[MOST_ARGUMENTS];
    char arch[32], include[PATH_BYTES], output[PATH_BYTES], source[PATH_BYTES], log[PATH_BYTES];
    int count;
};

static void add(struct command *command, const char *argument)
{
    if (command->count + 1 < MOST_ARGUMENTS)
        command->list[command->count++] = argument;
}

static void add_options(struct command *command, int num_options, const char *const *options)
{
    bool fused = true;
    for (int i = 0; i < num_options; i++) {
        const char *digits = strpbrk(options[i], "0123456789");
        if (strncmp(options[i], "-D", 2) == 0) {
            add(command, options[i]);
        } else if (strncmp(options[i], "-arch=", 6) == 0 && digits) {
            snprintf(command->arch, sizeof command->arch, "-D__CUDA_ARCH__=%d0", atoi(digits));
            add(command, command->arch);
        } else if (strcmp(options[i], "-fmad=false") == 0) {
            fused = false;
        }
    }
    add(command, fused ? "-ffp-contract=fast" : "-ffp-contract=off");
}

static void make_command(struct command *command, int program, int num_options,
                         const char *const *options)
{
    static const char *const fixed[] = {"-std=gnu++17",
                                        "-O1",
                                        "-fPIC",
                                        "-shared",
                                        "-w",
                                        "-mavx2",
                                        "-mfma",
                                        "-mf16c",
                                        "-fno-strict-aliasing",
                                        "-include",
                                        (EMULATOR_DEVICE "/cuda.h"),
                                        ("-I" EMULATOR_DEVICE)};
    const char *compiler = getenv("EMULATOR_CXX");
    add(command, compiler ? compiler : "g++");
    for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++)
        add(command, fixed[i]);
    snprintf(command->include, sizeof command->include, "-I%s", folder);
    snprintf(command->source, sizeof command->source, "%s/programs/p%d.cpp", folder, program);
    snprintf(command->output, sizeof command->output, "%s/programs/p%d.so", folder, program);
    snprintf(command->log, sizeof command->log, "%s/programs/p%d.log", folder, program);
    add(command, command->include);
    add(command, "-I" EMULATOR_ROOT);
    add_options(command, num_options, options);
    add(command, command->source);
    add(command, "-o");
    add(command, command->output);
    command->list[command->count] = NULL;
}

static bool run(const struct command *command)
{
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
        int log = open(command->log, O_WRONLY | O_CREAT | O_TRUNC, 0666);
        dup2(log, 1);
        dup2(log, 2);
        execvp(command->list[0], (char *const *)command->list);
        _exit(127);
    }
    return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) &&
           WEXITSTATUS(status) == 0;
}

static void *read_file(const char *path, size_t *bytes)
{
    FILE *in = fopen(path, "r");
    struct stat about;
    if (!in || fstat(fileno(in), &about) != 0) {
        if (in)
            fclose(in);
        return NULL;
    }
    char *data = malloc((size_t)about.st_size + 1);
    *bytes = fread(data, 1, (size_t)about.st_size, in);
    data[*bytes] = 0;
    fclose(in);
    return data;
}

void *emulator_compile(const char *text, const char *name, int num_headers,
                       const char *const *headers, const char *const *header_names, int num_options,
                       const char *const *options, size_t *bytes, char *log, size_t log_bytes)
{
    struct command command = {.count = 0};
    char source[32];
    int program = __atomic_fetch_add(&programs, 1, __ATOMIC_RELAXED);
    size_t ignored = 0;
    void *library = NULL;
    pthread_once(&folder_once, make_folder);
    snprintf(source, sizeof source, "programs/p%d.cpp", program);
    snprintf(log, log_bytes, "%s: cannot be written to %s", name, folder);
    if (!write_headers(num_headers, headers, header_names) ||
        !write_file(folder, source, text, true))
        return NULL;
    make_command(&command, program, num_options, options);
    if (run(&command))
        library = read_file(command.output, bytes);
    char *words = read_file(command.log, &ignored);
    snprintf(log, log_bytes, "%s", library ? "" : words ? words : "no compiler");
    free(words);
    if (!getenv("EMULATOR_KEEP"))
        unlink(command.output);
    unlink(command.log);
    return library;
}

void *emulator_load(const void *library, size_t bytes)
{
    static int loaded;
    char path[PATH_BYTES];
    pthread_once(&folder_once, make_folder);
    snprintf(path, sizeof path, "%s/k%d.so", folder,
             __atomic_fetch_add(&loaded, 1, __ATOMIC_RELAXED));
    FILE *out = fopen(path, "w");
    if (!out)
        return NULL;
    bool written = fwrite(library, 1, bytes, out) == bytes;
    void *handle = fclose(out) == 0 && written ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
    if (!handle)
        fprintf(stderr, "emulator: %s\n", dlerror());
    unlink(path);
    return handle;
}

void emulator_unload(void *handle)
{
    dlclose(handle);
}

void *emulator_kernel(void *handle, const char *name)
{
    char symbol[128];
    snprintf(symbol, sizeof symbol, "emulated_run_%s", name);
    return dlsym(handle, symbol);
}
