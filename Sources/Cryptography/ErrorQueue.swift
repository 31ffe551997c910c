internal import COpenSSL

/// OpenSSL's errors of this thread.
package enum ErrorQueue {
    /// Forgets what earlier calls have left, so that what is read after the next one is its own. Before calls that requests make:
    /// `ERR_clear_error` goes over all sixteen places whether anything is in them or not, and takes four times as long.
    package static func forget() {
        if ERR_peek_error() != 0 { ERR_clear_error() }
    }
}
