/* A fast, seeded hash of short byte strings: eight bytes at a time through a 64x64->128 bit multiplication. */
#ifndef TIDELOG_HASH_H
#define TIDELOG_HASH_H
#include <stdint.h>
#include <string.h>

static inline uint64_t tidelog_mix(uint64_t a, uint64_t b) {
    unsigned __int128 product = (unsigned __int128)a * b;
    return (uint64_t)(product >> 64) ^ (uint64_t)product;
}

static inline uint64_t tidelog_hash(const char *data, size_t size, uint64_t seed) {
    uint64_t hash = seed ^ (size * 0x9E3779B97F4A7C15ull);
    uint64_t word;
    while (size >= 8) {
        memcpy(&word, data, 8);
        hash = tidelog_mix(hash ^ word, 0xD6E8FEB86659FD93ull);
        data += 8;
        size -= 8;
    }
    word = 0;
    memcpy(&word, data, size);
    return tidelog_mix(hash ^ word, 0xA0761D6478BD642Full);
}
#endif
