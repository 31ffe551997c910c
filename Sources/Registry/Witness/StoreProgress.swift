/// How far a store has come: what a copy of it that is put back cannot say as well.
struct StoreProgress: Equatable, Sendable {
    let store: RandomID
    /// Which history the position is of: numbers of another one say nothing. Empty for a file, which has but one.
    let lineage: String
    /// Grows with whatever is written.
    let position: Int64
    /// Grows with every change of which devices and bindings are good.
    var standing: Int64
    /// Grows with every fresh epoch.
    let epochNumber: Int64
    /// The position that the file alone says, without its log, since all of that was moved into it last; -1 where nobody knows, or
    /// there are no such two.
    var inFile: Int64 = -1
}
