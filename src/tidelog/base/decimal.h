/* Decimal numbers in text, two digits at a time. For code on the way of every message. */

#ifndef TIDELOG_DECIMAL_H
#define TIDELOG_DECIMAL_H

#include <stdint.h>
#include <string.h>

static const char tidelog_pairs[] =
    "00010203040506070809101112131415161718192021222324252627282930313233343536373839"
    "40414243444546474849505152535455565758596061626364656667686970717273747576777879"
    "8081828384858687888990919293949596979899";

/* The digits of `number`; returns the place behind them. At most 20 are written. */
static inline char *tidelog_put_decimal(char *out, uint64_t number) {
    char digits[20];
    int at = 20;
    while (number >= 100) {
        at -= 2;
        memcpy(digits + at, tidelog_pairs + 2 * (number % 100), 2);
        number /= 100;
    }
    if (number >= 10) {
        at -= 2;
        memcpy(digits + at, tidelog_pairs + 2 * number, 2);
    } else {
        digits[--at] = (char)('0' + number);
    }
    memcpy(out, digits + at, (size_t)(20 - at));
    return out + (20 - at);
}

/* A number of nothing but digits, 18 at most; -1: it is none. */
static inline int64_t tidelog_read_decimal(const char *text, size_t size) {
    int64_t number = 0;
    if (size < 1 || size > 18)
        return -1;
    for (size_t i = 0; i < size; i++) {
        if (text[i] < '0' || text[i] > '9')
            return -1;
        number = number * 10 + (text[i] - '0');
    }
    return number;
}

#endif
