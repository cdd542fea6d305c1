/** What a document may be, so that hostile input costs a bounded amount of memory and is refused clearly. */
export const maxDocumentBytes = 64 * 1024 * 1024;
/** Objects and arrays in one document; a map of 100,000 scenes has 200,003. */
export const maxContainers = 1_000_000;
/** The schema itself needs a depth of 4. */
export const maxDepth = 64;
/** Findings reported for one document; one more says that there are others. */
export const maxFindings = 10_000;
