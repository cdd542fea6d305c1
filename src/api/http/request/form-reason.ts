/** Reasons why a form cannot be read, by the message of the parser. */
const reasons: Readonly<Record<string, string>> = {
  'Malformed part header': 'the header of a part is invalid',
  'Unexpected end of form': 'the form ends before its last boundary; it may be cut short',
  'Unexpected end of file': 'the form ends within a file; it may be cut short',
};

/** Returns the reason why a form cannot be read, for an error of busboy. */
export function formReason({ message }: Error): string {
  return reasons[message] ?? message;
}
