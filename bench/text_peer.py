"""What bench/compare-text-classifiers asks of other programs. Runs inside the virtual environment that it makes.

    text_peer.py pieces TRAIN.csv MODEL [--pieces 2000]   learns a SentencePiece model of the texts: MODEL.model
    text_peer.py classify TRAIN.csv VALIDATION.csv        prints scikit-learn's figures, as one JSON object
"""

import argparse
import csv
import json
import time


def rows_of(path):
    with open(path, newline="") as file:
        rows = list(csv.DictReader(file))
    return [row["text"] for row in rows], [row["speaker"] for row in rows]


def learn_pieces(arguments):
    import sentencepiece

    lines = [line for text in rows_of(arguments.train)[0] for line in text.splitlines()]
    # Capital letters are made small, as scikit-learn's vectorizer does.
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines),
        model_prefix=str(arguments.target),
        vocab_size=arguments.pieces,
        normalization_rule_name="nmt_nfkc_cf",
        minloglevel=2,
    )


def classify(arguments):
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import accuracy_score, f1_score

    texts, speakers = rows_of(arguments.train)
    new_texts, expected = rows_of(arguments.target)
    start = time.perf_counter()
    vectorizer = TfidfVectorizer(sublinear_tf=True)
    model = LogisticRegression(C=10, max_iter=1000).fit(vectorizer.fit_transform(texts), speakers)
    seconds = time.perf_counter() - start
    found = model.predict(vectorizer.transform(new_texts))
    figures = {"f1": f1_score(expected, found, average="macro"), "accuracy": accuracy_score(expected, found)}
    print(json.dumps({**figures, "seconds": seconds}))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=("pieces", "classify"))
    parser.add_argument("train")
    parser.add_argument("target")
    parser.add_argument("--pieces", type=int, default=2000)
    arguments = parser.parse_args()
    learn_pieces(arguments) if arguments.action == "pieces" else classify(arguments)


if __name__ == "__main__":
    main()
