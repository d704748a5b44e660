/* Short byte strings compared in words, and a byte looked up among sixteen: what a radix tree does all day. Nothing is
   read outside the given bytes. Everything has a portable form; the faster ones are for little-endian machines and SSE2. */
#ifndef TIDELOG_COMPARE_H
#define TIDELOG_COMPARE_H
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__GNUC__) && defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define TIDELOG_WORDWISE 1
#endif
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#ifdef __GNUC__
#define tidelog_prefetch(address) __builtin_prefetch(address)
#else
#define tidelog_prefetch(address) ((void)(address))
#endif

/* How many bytes `a` and `b` have in common at their fronts, `size` at most. */
static inline size_t tidelog_common(const char *a, const char *b, size_t size) {
    size_t at = 0;
#ifdef TIDELOG_WORDWISE
    uint64_t left, right;
    while (size - at >= 8) {
        memcpy(&left, a + at, 8);
        memcpy(&right, b + at, 8);
        if (left != right)
            return at + ((size_t)__builtin_ctzll(left ^ right) >> 3);
        at += 8;
    }
#endif
    while (at < size && a[at] == b[at])
        at++;
    return at;
}

/* Whether the two are the same. */
static inline int tidelog_same(const char *a, const char *b, size_t size) {
    uint64_t left, right;
    uint32_t short_left, short_right;
    while (size >= 8) {
        memcpy(&left, a, 8);
        memcpy(&right, b, 8);
        if (left != right)
            return 0;
        a += 8;
        b += 8;
        size -= 8;
    }
    if (size >= 4) {
        memcpy(&short_left, a, 4);
        memcpy(&short_right, b, 4);
        if (short_left != short_right)
            return 0;
        a += 4;
        b += 4;
        size -= 4;
    }
    while (size > 0) {
        if (*a++ != *b++)
            return 0;
        size--;
    }
    return 1;
}

/* Where `byte` stands among the first `count` of four or sixteen different keys; -1 if it does not. The room behind the
   count is read, and may hold anything. */
static inline int tidelog_find_in_4(const uint8_t *keys, uint8_t byte, unsigned count) {
#ifdef TIDELOG_WORDWISE
    uint32_t word;
    memcpy(&word, keys, 4);
    word ^= byte * 0x01010101u;
    /* The lowest high bit that this leaves marks the first byte that is zero. */
    word = (word - 0x01010101u) & ~word & 0x80808080u;
    if (word == 0)
        return -1;
    unsigned at = (unsigned)__builtin_ctz(word) >> 3;
    return at < count ? (int)at : -1;
#else
    for (unsigned at = 0; at < count; at++)
        if (keys[at] == byte)
            return (int)at;
    return -1;
#endif
}

static inline int tidelog_find_in_16(const uint8_t *keys, uint8_t byte, unsigned count) {
#if defined(__SSE2__) && defined(__GNUC__)
    __m128i all = _mm_loadu_si128((const __m128i *)keys);
    unsigned same = (unsigned)_mm_movemask_epi8(_mm_cmpeq_epi8(all, _mm_set1_epi8((char)byte)));
    same &= (1u << count) - 1;
    return same ? __builtin_ctz(same) : -1;
#else
    for (unsigned at = 0; at < count; at++)
        if (keys[at] == byte)
            return (int)at;
    return -1;
#endif
}
#endif
