#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| iceberg_read_restrictions::layer::fuzz::entity_tags(input));
