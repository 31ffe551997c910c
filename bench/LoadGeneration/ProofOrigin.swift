/// Where the proof of a request comes from.
enum ProofOrigin: Int {
    /// Made before the measurement.
    case ahead
    case live
    /// There was no challenge to make one of.
    case missing
}
