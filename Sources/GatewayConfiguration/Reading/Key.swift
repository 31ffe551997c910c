/// A row of a settings table together with the type its value is read as.
struct Key<Value: Sendable>: Sendable {
    let setting: Setting
    let kind: Kind<Value>

    init(
        _ name: String, _ kind: Kind<Value>, unit: String? = nil, whenMissing absence: Setting.Absence,
        _ summary: String
    ) {
        setting = Setting(
            name: name, type: kind.expected, shape: kind.shape, unit: unit, absence: absence, summary: summary)
        self.kind = kind
    }
}
