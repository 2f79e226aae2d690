// SPDX-License-Identifier: MIT
#ifndef ENGINE_CONSTRAIN_SCHEMA_H
#define ENGINE_CONSTRAIN_SCHEMA_H

// JSON schemas as grammars. Every text of the grammar is JSON that is valid for the schema; not every valid text is
// one of the grammar: members come in the order of `properties`, white space is a space or a line's end with
// indentation, numbers with bounds have no exponent, and objects with `properties` have others only where
// `additionalProperties` says so.
//
// Known: type (also a list), enum, const, anyOf, oneOf (as anyOf), allOf of one, $ref within the schema, also to what
// it stands in, $defs; properties, required, additionalProperties; items, prefixItems, minItems, maxItems; minLength,
// maxLength, pattern (pattern.h), format (date, time, date-time, duration, email, hostname, ipv4, ipv6, uuid);
// minimum, maximum, exclusiveMinimum, exclusiveMaximum, multipleOf. Annotations are passed over; what would change
// what is valid and is not known is refused with its place.

#include "engine/constrain/grammar.h"

// NULL with the place in the schema and what is wrong with it.
grammar *schema_parse(const char *json, size_t bytes, engine_error *err);

#endif
