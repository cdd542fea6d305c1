/**
 * Returns a function that decodes names in a listing. We ask for URL-encoded names, because some names cannot
 * be represented in XML. If the server does not support that, names are not encoded. Throws `malformed()` if
 * a name cannot be decoded.
 */
export function nameDecoder(
  encodingType: string | undefined,
  malformed: () => Error,
): (name: string | undefined) => string {
  if (encodingType !== 'url') return (name = '') => name;
  return (name = '') => {
    try {
      return decodeURIComponent(name.replaceAll('+', ' '));
    } catch {
      throw malformed();
    }
  };
}
