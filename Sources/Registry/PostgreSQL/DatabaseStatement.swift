/// A statement with its values, to be sent together with others: each way to the database and back is one more that others wait
/// for.
struct DatabaseStatement {
    let sql: String
    let arguments: [DatabaseValue]

    init(_ sql: String, _ arguments: [DatabaseValue] = []) {
        self.sql = sql
        self.arguments = arguments
    }
}
