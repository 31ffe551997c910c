internal import Synchronization
internal import Vocabulary

/// An app id as one process numbers them, so that comparing two costs nothing and copies no text.
public struct AppNumber: Hashable, Sendable {
    let number: UInt32
}

/// The numbers of app ids, in the order they were first seen. They stay for the life of the process; operators register
/// few apps.
final class AppNumbers: Sendable {
    private let numbers = Mutex<[AppID: AppNumber]>([:])

    func number(of app: AppID) -> AppNumber {
        numbers.withLock { numbers in
            if let known = numbers[app] { return known }
            let number = AppNumber(number: UInt32(numbers.count))
            numbers[app] = number
            return number
        }
    }
}
