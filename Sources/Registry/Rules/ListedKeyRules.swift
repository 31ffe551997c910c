internal import Vocabulary

/// The rules for devices whose keys rest on listed certificates.
enum ListedKeyRules {
    /// Marks devices that have one of the certificates, in the order of their numbers.
    static func mark(_ search: ListedKeySearch) -> StoreRule<RegistryReply> {
        var look = StoreLook()
        look.listed = .unmarked(holding: search.serials, after: search.after, limit: search.limit)
        return StoreRule(look: look, isOftenIdle: true) { facts in
            let devices = facts.listed.map(\.device)
            let next = devices.count == search.limit ? devices.last : nil
            return StoreDecision(
                devices.map { .markListed($0, true) }, reading: devices.map { .id($0) }
            ) { .listedKeys(ListedKeyPage(changed: $0, next: next)) }
        }
    }

    /// Releases marked devices that have none of the certificates, in the order of their numbers.
    static func release(_ review: ListedKeyReview) -> StoreRule<RegistryReply> {
        var look = StoreLook()
        look.listed = .marked(after: review.after, limit: review.limit)
        return StoreRule(look: look, isOftenIdle: true) { facts in
            let released = facts.listed.filter { review.listed.isDisjoint(with: $0.serials) }.map(\.device)
            let kept = facts.listed.count - released.count
            let next = facts.listed.count == review.limit ? facts.listed.last?.device : nil
            return StoreDecision(
                released.map { .markListed($0, false) }, reading: released.map { .id($0) }
            ) { .listedKeys(ListedKeyPage(changed: $0, kept: kept, next: next)) }
        }
    }
}
