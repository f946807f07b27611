// English.
export const en = {
  send: 'Send',
  sent: 'Sent',
  stop: 'Stop',
  brokeOff: 'The answer broke off',
  cause: 'Why:',
  stopped: 'This answer was stopped.',
  sending: 'sending',
  notSent: 'Not sent.',
  notConfirmed: 'The server had not confirmed it when the page was left. If it did arrive, another try changes nothing.',
  tryAgain: 'Try again',
  discard: 'Discard',
  unsentIn: 'Not sent:',
  signOut: 'Sign out',
  signOutUnsent: 'Sign out and lose what was not sent?',
  signOutUnsentWhy: 'Some messages were not sent. They are kept in this tab alone, and signing out discards them.',
};
