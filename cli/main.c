// SPDX-License-Identifier: MIT
#include <errno.h>
#include <string.h>

#include "cli/cli.h"

extern const cli_command cli_run, cli_chat, cli_serve, cli_inspect, cli_tokenize, cli_detokenize,
    cli_embed, cli_logits, cli_perplexity, cli_quantize, cli_bench, cli_tune, cli_profile,
    cli_analyse, cli_explain, cli_info;

static const cli_command *const commands[] = {
    &cli_run,     &cli_chat,    &cli_serve,      &cli_inspect,  &cli_tokenize, &cli_detokenize,
    &cli_embed,   &cli_logits,  &cli_perplexity, &cli_quantize, &cli_bench,    &cli_tune,
    &cli_profile, &cli_analyse, &cli_explain,    &cli_info,
};
enum { COMMAND_COUNT = sizeof commands / sizeof *commands };

static void print_overview(FILE *to)
{
    fputs("usage: weft COMMAND [arguments]\n"
          "\n"
          "Runs language models from GGUF files and model folders, and measures the kernels that "
          "do it.\n"
          "\n",
          to);
    for (int i = 0; i < COMMAND_COUNT; i++)
        fprintf(to, "  %-12s %s\n", commands[i]->name, commands[i]->summary);
    fputs(
        "\n"
        "weft COMMAND --help explains a command.  For a start:\n"
        "\n"
        "  weft run models/demo.gguf -p \"Tell me a story about a fox.\"\n"
        "\n"
        "WEFT_CPU=ref|avx2|avx512|avx512vnni|neon|... lowers the instruction set, for comparing.\n"
        "Exit status: 0 done, 1 failed, 2 bad usage.\n",
        to);
}

// What was printed must have arrived: a full disk is a failure like any other.
static int settle_output(const char *name, int status)
{
    errno = 0;
    if ((fflush(stdout) == 0 && !ferror(stdout)) || status != CLI_DONE)
        return status;
    fprintf(stderr, "weft%s%s: standard output cannot be written%s%s\n", *name ? " " : "", name,
            errno ? ": " : "", errno ? strerror(errno) : "");
    return CLI_FAILED;
}

int main(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : "";
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 || strcmp(name, "help") == 0) {
        print_overview(stdout);
        return settle_output("", CLI_DONE);
    }
    if (strcmp(name, "--version") == 0) {
        printf("weft %s\n", weft_version());
        return settle_output("", CLI_DONE);
    }
    for (int i = 0; i < COMMAND_COUNT; i++)
        if (strcmp(commands[i]->name, name) == 0)
            return settle_output(name, commands[i]->run(commands[i], argc - 1, argv + 1));
    const char *nearest = NULL;
    for (int i = 0; i < COMMAND_COUNT && *name; i++)
        cli_keep_nearer(name, commands[i]->name, &nearest);
    if (!*name)
        print_overview(stderr);
    else if (nearest)
        fprintf(stderr, "weft: no command is called '%s', did you mean %s? see weft --help\n", name,
                nearest);
    else
        fprintf(stderr, "weft: no command is called '%s'; see weft --help\n", name);
    return CLI_USAGE;
}
