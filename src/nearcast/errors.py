"""The root of all exceptions of this package; imports nothing."""


class NearcastError(Exception):
    """Something that Nearcast refuses or could not do; the message says what to change.

        AdhocError
            AdhocOptionsError (V)
            MulticastError
        AdmissionError
        AuthError (V)
        BeaconError (V)
        BenchmarkError
        ClientError
            AddressError (V)
            BacklogError
            ConnectionLostError
            OptionsError (V)
            QueueFullError
            RejectedError
        ConfigurationError (V)
        ControlError
        DatagramTooLargeError
        DecodingError (V)
        EncodeError (V)
        ExplanationBusyError
        ExplanationFailedError
        GroupKeyError (V)
        HandoverError (V)
        LanguageError (V)
        MembersError (V)
        ModelError (V)
            AdaptationError
                PolicySyntaxError
            EventTypeError
            MisreadError
            PlaceError
        PipelineError
            JavaError
            LinkError
                LinkRefusedError
            PipelineInputError (V)
            ResultLimitError
            WouldLoseError
        ProtocolError
        RefusedError
        ScriptError (V)
        StoreError
            AmbiguousEventError
            CorruptError
                MissingError
            DiskFullError
            InUseError
            UpgradeError
        TokenError

    Those marked with (V) are a `ValueError` too: something given was wrong. The command line
    prints the message and exits with code 2 for these, and with 1 for the others.
    """
