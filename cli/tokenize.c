// SPDX-License-Identifier: MIT
// weft tokenize and weft detokenize: text to ids and back.
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"

static const char tokenize_help[] =
    "usage: weft tokenize MODEL TEXT [options]\n"
    "\n"
    "Prints the ids and pieces of TEXT, one token a line.\n"
    "\n"
    "  -f, --file FILE     read the text from FILE instead; - is standard input\n"
    "  --special           recognise control tokens such as <|im_start|> in the text\n"
    "  --no-bos            leave out what the model wants before and after a text\n"
    "  --ids               print only the ids, as one list for `weft logits --tokens`\n"
    "  --json              one JSON object: {\"ids\": [...], \"pieces\": [...]}\n";

static const char detokenize_help[] =
    "usage: weft detokenize MODEL IDS [options]\n"
    "\n"
    "Prints the text of a list of ids such as 1,2,3: what weft tokenize was given.\n"
    "\n"
    "  --special           show control tokens\n"
    "  --json              one JSON object: {\"text\": ...}\n";

enum { OPT_SPECIAL = 1, OPT_NO_BOS, OPT_IDS, OPT_JSON };

static const struct option tokenize_options[] = {{"file", required_argument, NULL, 'f'},
                                                 {"special", no_argument, NULL, OPT_SPECIAL},
                                                 {"no-bos", no_argument, NULL, OPT_NO_BOS},
                                                 {"ids", no_argument, NULL, OPT_IDS},
                                                 {"json", no_argument, NULL, OPT_JSON},
                                                 {"help", no_argument, NULL, CLI_OPT_HELP},
                                                 {0}};

static const struct option detokenize_options[] = {{"special", no_argument, NULL, OPT_SPECIAL},
                                                   {"json", no_argument, NULL, OPT_JSON},
                                                   {"help", no_argument, NULL, CLI_OPT_HELP},
                                                   {0}};

typedef struct request {
    const cli_command *self;
    const char *model_path, *text, *file;
    bool special, no_bos, ids, json;
} request;

// Returns -1 to go on, or an exit status.
static int parse(request *wish, int argc, char **argv, const struct option *options,
                 const char *operand)
{
    int option, status;
    while ((option = cli_next_option(wish->self, argc, argv, options, &status)) != CLI_OPTIONS_END)
        switch (option) {
        case CLI_OPTIONS_BAD: return status;
        case 'f': wish->file = optarg; break;
        case OPT_SPECIAL: wish->special = true; break;
        case OPT_NO_BOS: wish->no_bos = true; break;
        case OPT_IDS: wish->ids = true; break;
        case OPT_JSON: wish->json = true; break;
        }
    int wanted = wish->file ? 1 : 2;
    if (argc - optind < wanted)
        return cli_bad_usage(wish->self, "%s is missing", argc == optind ? "MODEL" : operand);
    if (argc - optind > wanted)
        return cli_bad_usage(wish->self, "unexpected argument '%s'", argv[optind + wanted]);
    wish->model_path = argv[optind];
    wish->text = wish->file ? NULL : argv[optind + 1];
    return -1;
}

// Opens only what text needs: the file and its tokenizer.
static tokenizer *open_tokenizer(const request *wish)
{
    engine_error err = {{0}};
    gguf_file *file = model_file_open(wish->model_path, &err);
    tokenizer *t = file ? tokenizer_from_gguf(file, &err) : NULL;
    if (!t)
        cli_failed(wish->self, "%s", err.text);
    gguf_close(file);
    return t;
}

// A piece as JSON text: bytes that are not UTF-8 on their own become U+FFFD.
static json_t *piece_json(const tokenizer *t, int32_t id)
{
    tokenizer_text text = {0};
    engine_error err;
    json_t *value = NULL;
    if (tokenizer_decode(t, &id, 1, TOKENIZER_SHOW_SPECIAL, &text, &err))
        value = json_stringn(text.data ? text.data : "", text.size_bytes);
    tokenizer_text_free(&text);
    return value ? value : json_string("");
}

static int print_json(const request *wish, const tokenizer *t, const tokenizer_ids *list)
{
    json_t *ids = json_array(), *pieces = json_array();
    for (size_t i = 0; i < list->count; i++) {
        json_array_append_new(ids, json_integer(list->ids[i]));
        json_array_append_new(pieces, piece_json(t, list->ids[i]));
    }
    return cli_print_json(wish->self, json_pack("{s:o, s:o}", "ids", ids, "pieces", pieces));
}

// Bytes of the printable character at text, 0 if there is none: a piece may hold half a character, and
// what could steer a terminal.
static size_t printable_character(const char *text, size_t bytes)
{
    unsigned char lead = (unsigned char)*text;
    size_t length = lead < 0xc0 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
    return length <= bytes && text_is_printable(text, length) ? length : 0;
}

static void print_lines(const tokenizer *t, const tokenizer_ids *list)
{
    for (size_t i = 0; i < list->count; i++) {
        tokenizer_bytes piece = {"", 0};
        printf("%8d  ", list->ids[i]);
        tokenizer_piece(t, list->ids[i], &piece);
        for (size_t b = 0; b < piece.size_bytes;) {
            size_t length = printable_character(piece.data + b, piece.size_bytes - b);
            if (length > 0)
                fwrite(piece.data + b, 1, length, stdout);
            else
                printf("\\x%02x", (unsigned char)piece.data[b]);
            b += length > 0 ? length : 1;
        }
        putchar('\n');
    }
}

static void print_ids(const tokenizer_ids *list)
{
    for (size_t i = 0; i < list->count; i++)
        printf("%s%d", i ? "," : "", list->ids[i]);
    putchar('\n');
}

static int print_tokens(const request *wish, const tokenizer *t, const tokenizer_ids *list)
{
    if (wish->json)
        return print_json(wish, t, list);
    if (wish->ids)
        print_ids(list);
    else
        print_lines(t, list);
    return CLI_DONE;
}

static int tokenize_text(const request *wish, const tokenizer *t, const char *text, size_t bytes)
{
    tokenizer_ids list = {0};
    engine_error err = {{0}};
    unsigned flags = (wish->no_bos ? 0u : TOKENIZER_ADD_SPECIAL) |
                     (wish->special ? TOKENIZER_PARSE_SPECIAL : 0u);
    bool fine = tokenizer_encode(t, text, bytes, flags, &list, &err);
    int status = fine ? print_tokens(wish, t, &list) : cli_failed(wish->self, "%s", err.text);
    tokenizer_ids_free(&list);
    return status;
}

static int tokenize_main(const cli_command *self, int argc, char **argv)
{
    request wish = {.self = self};
    int status = parse(&wish, argc, argv, tokenize_options, "TEXT");
    if (status >= 0)
        return status;
    tokenizer *t = open_tokenizer(&wish);
    if (!t)
        return CLI_FAILED;
    char *read = NULL;
    size_t bytes = wish.text ? strlen(wish.text) : 0;
    if (wish.file)
        read = cli_read_file(self, wish.file, &bytes);
    status =
        wish.file && !read ? CLI_FAILED : tokenize_text(&wish, t, read ? read : wish.text, bytes);
    free(read);
    tokenizer_free(t);
    return status;
}

static int print_text(const request *wish, const tokenizer_text *text)
{
    const char *data = text->data ? text->data : "";
    if (wish->json)
        return cli_print_json(wish->self, json_pack("{s:s%}", "text", data, text->size_bytes));
    fwrite(data, 1, text->size_bytes, stdout);
    putchar('\n');
    return CLI_DONE;
}

static int detokenize_main(const cli_command *self, int argc, char **argv)
{
    request wish = {.self = self};
    int32_t *ids, count;
    int status = parse(&wish, argc, argv, detokenize_options, "IDS");
    if (status >= 0)
        return status;
    if (!wish.text)
        return cli_bad_usage(self, "--file belongs to weft tokenize");
    if (!cli_ids(self, "IDS", wish.text, &ids, &count))
        return CLI_USAGE;
    tokenizer *t = open_tokenizer(&wish);
    tokenizer_text text = {0};
    engine_error err = {{0}};
    status = CLI_FAILED;
    unsigned flags = TOKENIZER_STRIP_SPACE_PREFIX | (wish.special ? TOKENIZER_SHOW_SPECIAL : 0u);
    if (t && tokenizer_decode(t, ids, (size_t)count, flags, &text, &err))
        status = print_text(&wish, &text);
    else if (t)
        cli_failed(self, "%s", err.text);
    tokenizer_text_free(&text);
    tokenizer_free(t);
    free(ids);
    return status;
}

const cli_command cli_tokenize = {
    "tokenize", "show the tokens of a text", {tokenize_help}, tokenize_main};
const cli_command cli_detokenize = {
    "detokenize", "show the text of tokens", {detokenize_help}, detokenize_main};
