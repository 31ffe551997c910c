internal import Synchronization

/// A setting of the conf file, declared on the property that holds its value.
///
///     @Setting(.integer(8...256), unit: "fields", default: "100", "The maximum number of fields in a request head.")
///     public var fields: Int
///
/// The key is the property's name in snake case. Parser, schema, the reference `conf/attestgate.yaml` and the rules for
/// a reload come from this declaration.
@propertyWrapper
public final class Setting<Value: Sendable>: Sendable {
    private struct State: Sendable {
        /// Nil after a refusal.
        var value: Value?
        let place: Place
        let isWritten: Bool
    }

    private let makeDeclaration: @Sendable (_ property: String) -> SettingDeclaration
    private let restart: RestartRule<Value>?
    private let isIndependent: Bool
    /// The result of reading. Nil in a value that only declares the settings of its section.
    private let state = Mutex<State?>(nil)

    /// Declares a setting with a default.
    ///
    /// - Parameters:
    ///   - key: the key, if it is not the property's name.
    ///   - kind: the kind of the value.
    ///   - unit: the unit that is counted, or the beginning and end of a time.
    ///   - standard: the default in the notation of the conf file.
    ///   - isUsed: whether a process with the role uses the value. Other processes do not check files named in it.
    ///   - restart: the changes that a reload cannot apply. Nil if it applies all.
    ///   - summary: the purpose of the setting in one sentence.
    convenience init(
        key: String? = nil, _ kind: @autoclosure @escaping @Sendable () -> Kind<Value>, unit: String? = nil,
        default standard: String, isUsed: @escaping @Sendable (Role) -> Bool = { _ in true },
        restart: RestartRule<Value>? = nil, _ summary: String
    ) {
        self.init(key, kind, unit, .means(standard), isUsed, restart, false, summary)
    }

    /// Declares a setting without which the conf file is refused.
    convenience init(
        key: String? = nil, required kind: @autoclosure @escaping @Sendable () -> Kind<Value>, unit: String? = nil,
        isUsed: @escaping @Sendable (Role) -> Bool = { _ in true }, _ summary: String
    ) {
        self.init(key, kind, unit, .refused, isUsed, nil, false, summary)
    }

    /// Declares a setting that may be missing; its value is then nil.
    ///
    /// - Parameter isIndependent: whether no rule needs the value, so that rules apply to its section even if it is
    ///   refused.
    convenience init<Wrapped>(
        key: String? = nil, _ kind: @autoclosure @escaping @Sendable () -> Kind<Wrapped>, unit: String? = nil,
        isUsed: @escaping @Sendable (Role) -> Bool = { _ in true }, restart: RestartRule<Value>? = nil,
        isIndependent: Bool = false, _ summary: String
    ) where Value == Wrapped? {
        self.init(key, { kind().optional }, unit, .allowed, isUsed, restart, isIndependent, summary)
    }

    private init(
        _ key: String?, _ kind: @escaping @Sendable () -> Kind<Value>, _ unit: String?,
        _ absence: SettingDeclaration.Absence, _ isUsed: @escaping @Sendable (Role) -> Bool,
        _ restart: RestartRule<Value>?, _ isIndependent: Bool, _ summary: String
    ) {
        // Called once for each section. Kinds compose their texts, which takes too long for every value of a list.
        makeDeclaration = { property in
            let kind = kind()
            return SettingDeclaration(
                name: key ?? property, type: kind.expected, shape: kind.shape, unit: unit, absence: absence,
                summary: summary, isUsed: isUsed, kind: kind)
        }
        self.restart = restart
        self.isIndependent = isIndependent
    }

    public var wrappedValue: Value {
        guard let value else { preconditionFailure("a setting is used although it was not read") }
        return value
    }

    /// The value. Nil after a refusal; rules between settings read it.
    var value: Value? { state.withLock { $0?.value } }

    /// Whether the file has the key.
    var isWritten: Bool { state.withLock { $0?.isWritten ?? false } }

    /// The place of the value, or of the section if the key is missing.
    var place: Place { state.withLock { $0?.place } ?? Place(line: 1, column: 1) }

    /// Sets a value that depends on other settings.
    func derive(_ value: Value) { state.withLock { $0?.value = value } }
}

extension Setting where Value == Int {
    /// Lowers a default to the number of which it is a part, so an operator need not adjust all parts.
    func lowerDefault(to whole: Int?) {
        guard let whole, let value, !isWritten else { return }
        derive(min(value, whole))
    }
}

extension Setting: Equatable where Value: Equatable {
    /// Returns whether the values are equal, wherever they stand.
    public static func == (left: Setting, right: Setting) -> Bool { left.value == right.value }
}

/// A setting without the type of its value.
protocol AnySetting: AnyObject, Sendable {
    var isRefused: Bool { get }
    /// The place of the value, or of the section if the key is missing.
    var place: Place { get }

    /// Returns the declaration.
    ///
    /// - Parameter property: the key if the declaration has no other.
    func declaration(property: String) -> SettingDeclaration

    /// Reads the value or the default. The value is nil after a refusal, which has then been reported.
    ///
    /// - Parameters:
    ///   - declaration: the result of `declaration(property:)` for the same property.
    ///   - reader: the section.
    ///   - hasEffect: whether the value is read at all.
    func read(_ declaration: SettingDeclaration, from reader: SectionReader, hasEffect: Bool)

    /// Returns the reason why a reload cannot apply another value, without the key. Nil if it can.
    func obstacle(to next: any AnySetting, _ role: Role) -> String?
}

extension Setting: AnySetting {
    var isRefused: Bool { value == nil }

    func declaration(property: String) -> SettingDeclaration { makeDeclaration(property) }

    func read(_ declaration: SettingDeclaration, from reader: SectionReader, hasEffect: Bool) {
        guard let kind = declaration.kind as? Kind<Value> else { preconditionFailure("the setting of another section") }
        let entry = reader.item.entries.first { $0.key == declaration.name }
        let isSpared = !declaration.isUsed(reader.reading.role)
        let read = reader.reading.sparingFiles(if: isSpared) {
            hasEffect ? reader.read(entry, kind, declaration) : nil
        }
        let value = read ?? (isIndependent ? kind.missing : nil)
        let place = entry?.value.place ?? reader.item.place
        state.withLock { $0 = State(value: value, place: place, isWritten: entry != nil) }
    }

    func obstacle(to next: any AnySetting, _ role: Role) -> String? {
        guard let value, let next = (next as? Setting)?.value else { return nil }
        if let restart { return restart.reason(value, next) }
        guard let section = value as? any ConfigurationSection else { return nil }
        return section.obstacle(toAny: next, role)
    }
}

/// The changes of a setting that take a restart.
struct RestartRule<Value>: Sendable {
    /// Returns the reason, in words that follow the key, or nil if a reload can apply the change.
    let reason: @Sendable (_ old: Value, _ new: Value) -> String?

    /// The other way to apply such a change. It refuses no connection.
    static var orUpgrade: String { ", or `attestgate upgrade`" }

    /// Creates a rule for changes that an upgrade applies, too.
    ///
    /// - Parameters:
    ///   - change: the change in words: "another level".
    ///   - facet: the part of the value that cannot change.
    static func needed<Facet: Equatable & Sendable>(
        for change: String, when facet: @escaping @Sendable (Value) -> Facet, hint: String = ""
    ) -> RestartRule {
        RestartRule { facet($0) == facet($1) ? nil : "\(change) requires a restart\(orUpgrade)\(hint)" }
    }
}

/// The declaration of a setting without the type of its value.
struct SettingDeclaration: Sendable {
    /// The treatment of a missing key.
    enum Absence: Equatable, Sendable {
        /// The conf file is refused.
        case refused
        /// The setting does not apply.
        case allowed
        /// This default applies.
        case means(String)
    }

    let name: String
    /// The required value in words: "a duration from 100ms to 5m".
    let type: String
    /// The required value for editors.
    let shape: Shape
    /// The unit that is counted, or the beginning and end of a time.
    let unit: String?
    let absence: Absence
    /// The purpose of the setting in one sentence.
    let summary: String
    /// Whether a process with the role uses the value.
    let isUsed: @Sendable (Role) -> Bool
    /// The `Kind` of the value.
    fileprivate let kind: any Sendable
}
