//! The exported C symbols of a program that runs past the kernel, and nothing else.
