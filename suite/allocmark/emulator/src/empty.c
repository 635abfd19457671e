/* A library that TensorFlow looks for but whose functions are not emulated. */
int allocmark_emulator_empty;
