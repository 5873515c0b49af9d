"""The running controller: the command (`launcher`), its parts made and joined (`service`), the Ryu
application that hands events to the core and effects to the switches (`app`, `translate`)."""
