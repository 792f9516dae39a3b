// Operators called for themselves alone.
#pragma once
#include "capture/keys.h"

#include <c10/core/impl/LocalDispatchKeySet.h>

namespace graphopt::capture {

/// While it lives, the thread's operators run without autograd, casts and recording.
class PlainDispatch {
public:
  PlainDispatch() : guard_(c10::impl::LocalDispatchKeySet(keys())) {}

private:
  static c10::impl::PODLocalDispatchKeySet keys() {
    c10::impl::PODLocalDispatchKeySet keys{};
    keys.set_included(c10::DispatchKeySet(c10::DispatchKey::BackendSelect));
    keys.set_excluded(c10::autograd_dispatch_keyset_with_ADInplaceOrView | c10::autocast_dispatch_keyset |
                      c10::DispatchKeySet({kCaptureHigh, kCaptureLow}));
    return keys;
  }
  c10::impl::ForceDispatchKeyGuard guard_;
};

} // namespace graphopt::capture
