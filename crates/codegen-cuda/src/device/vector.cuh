// Neighbouring elements that are read or written at once.
template <typename T, int N> struct __align__(sizeof(T) * N) tegula_vector { T at[N]; };
